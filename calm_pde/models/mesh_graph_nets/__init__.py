"""MeshGraphNets."""

from calm_pde.models.mesh_graph_nets.model import MeshGraphNetsConfig

__all__ = ["MeshGraphNetsConfig"]
