"""Files for ParaView and other VTK programs, and the reading of users' meshes."""

from __future__ import annotations

from calm_pde.export.cells import Geometry, Image, Unstructured, geometry_of
from calm_pde.export.samples import (
    ENDINGS,
    layers_path,
    sample_geometry,
    sample_paths,
    write_layers,
    write_sample,
)
from calm_pde.export.vtkhdf import write_vtkhdf
from calm_pde.export.vtu import write_series, write_vtu

__all__ = [
    "ENDINGS",
    "Geometry",
    "Image",
    "Unstructured",
    "geometry_of",
    "layers_path",
    "sample_geometry",
    "sample_paths",
    "write_layers",
    "write_sample",
    "write_series",
    "write_vtkhdf",
    "write_vtu",
]
