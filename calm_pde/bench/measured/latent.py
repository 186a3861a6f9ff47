"""How many numbers stand for one frame inside a model: points, tokens or modes × channels, as the paper counts them."""

from __future__ import annotations

import math

from calm_pde.models import ModelConfig
from calm_pde.models.aroma.model import AromaConfig
from calm_pde.models.calm.model import CalmConfig
from calm_pde.models.ffno.model import FfnoConfig
from calm_pde.models.fno.model import FnoConfig
from calm_pde.models.latent_grid import LatentGridConfig
from calm_pde.models.lno.model import LnoConfig
from calm_pde.models.oformer.model import OFormerConfig
from calm_pde.models.pit.model import PitConfig


def latent_size(config: ModelConfig, num_points: int) -> int | None:
    """Of a frame on so many points; None for a model that nobody has counted.

    A Fourier model is counted by the modes of a layer, 2 numbers each, though its frames pass by at all points too; F-FNO on a
    grid by its points, since each of its layers keeps modes along one axis alone.
    """
    match config:
        case CalmConfig():
            return config.encoder.num_queries[-1] * config.encoder.channels[-1]
        case FfnoConfig(form="grid"):
            return num_points * config.width
        case FnoConfig() | LatentGridConfig():
            return 2 * (2 * config.modes) ** (config.dim - 1) * config.modes * config.width
        case OFormerConfig():
            return num_points * config.latent_width
        case PitConfig():
            return math.prod(config.latent_mesh) * config.width
        case LnoConfig():
            return config.modes * config.width
        case AromaConfig():
            return config.autoencoder.num_tokens * config.autoencoder.latent_channels
    return None
