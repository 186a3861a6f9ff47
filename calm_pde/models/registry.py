"""The registry of models: a new model is one folder beside this file and one line in it."""

from __future__ import annotations

from calm_pde.models.aroma import AromaConfig
from calm_pde.models.calm import CalmConfig
from calm_pde.models.contract import ModelConfig
from calm_pde.models.ffno import FfnoConfig
from calm_pde.models.fno import FnoConfig
from calm_pde.models.galerkin import GalerkinConfig
from calm_pde.models.gaot import GaotConfig
from calm_pde.models.geo_fno import GeoFnoConfig
from calm_pde.models.gnot import GnotConfig
from calm_pde.models.lno import LnoConfig
from calm_pde.models.mesh_graph_nets import MeshGraphNetsConfig
from calm_pde.models.oformer import OFormerConfig
from calm_pde.models.ono import OnoConfig
from calm_pde.models.pit import PitConfig
from calm_pde.models.transolver import TransolverConfig
from calm_pde.models.unet import UNetConfig
from calm_pde.models.upt import UptConfig

MODELS: dict[str, type[ModelConfig]] = {
    "calm": CalmConfig,
    "fno": FnoConfig,
    "geo_fno": GeoFnoConfig,
    "ffno": FfnoConfig,
    "pit": PitConfig,
    "oformer": OFormerConfig,
    "lno": LnoConfig,
    "aroma": AromaConfig,
    "upt": UptConfig,
    "mesh_graph_nets": MeshGraphNetsConfig,
    "gaot": GaotConfig,
    "unet": UNetConfig,
    "galerkin": GalerkinConfig,
    "gnot": GnotConfig,
    "ono": OnoConfig,
    "transolver": TransolverConfig,
}
"""In the order of tables."""
OURS = "calm"
"""What a recipe means that names no kind, and what others are compared to."""
