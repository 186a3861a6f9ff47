"""Geo-FNO."""

from calm_pde.models.geo_fno.model import GeoFnoConfig

__all__ = ["GeoFnoConfig"]
