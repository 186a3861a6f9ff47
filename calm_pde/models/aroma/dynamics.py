"""AROMA's dynamics: the next frame's tokens by a diffusion in a few steps, given those of this frame."""

from __future__ import annotations

from typing import Annotated

import torch
from pydantic import Field, PositiveFloat, PositiveInt, model_validator
from torch import nn

from calm_pde.config import Config, Repeats, Seed
from calm_pde.models.aroma.diffusion import NoiseSchedule
from calm_pde.models.aroma.diffusion_transformer import DiffusionTransformer
from calm_pde.models.draws import Draws
from calm_pde.types import Float, Tensor

_LONGEST = 1000.0  # the time that level K stands for


class DynamicsConfig(Config):
    """Sizes, and how a frame follows from the one before it."""

    width: PositiveInt = 128
    heads: PositiveInt = 4
    blocks: PositiveInt = 4
    denoising_steps: Repeats = 3
    """K: the network is called K + 1 times per frame."""
    minimum_noise: Annotated[float, Field(gt=0, lt=1)] = 1e-3
    residual: PositiveFloat | None = None
    """The diffusion makes this many times the change from frame to frame, instead of the next frame."""
    standardize: bool = False
    """Whether the diffusion sees tokens with mean 0 and deviation 1 per channel over the training frames."""
    noise_seed: Seed = 0
    """Of the noise that frames are made from: the same for every sample and every call."""

    @model_validator(mode="after")
    def _parts_fit(self) -> DynamicsConfig:
        if self.width % self.heads:
            raise ValueError(f"heads must divide the width {self.width}, got {self.heads}")
        return self


class Dynamics(nn.Module):
    """z(t + 1) from z(t): refined from noise by a network that says v of y_k, given z(t), and what it is `told` of the step."""

    mean: Tensor
    std: Tensor

    def __init__(
        self, config: DynamicsConfig, tokens: int, channels: int, told: int, generator: torch.Generator | None
    ) -> None:
        super().__init__()
        self.config = config
        self.schedule = NoiseSchedule(config.denoising_steps, config.minimum_noise)
        self.network = DiffusionTransformer(
            channels, tokens, width=config.width, heads=config.heads, blocks=config.blocks, told=told, generator=generator
        )
        self.register_buffer("mean", torch.zeros(channels))
        self.register_buffer("std", torch.ones(channels))

    def losses(
        self,
        z: Float[Tensor, "batch token channel"],
        after: Float[Tensor, "batch token channel"],
        draws: Draws,
        told: Float[Tensor, "batch condition"] | None = None,
    ) -> Float[Tensor, "batch"]:
        """The mean square of v̂ − v at a level that each window draws."""
        z, after = ((tokens - self.mean) / self.std for tokens in (z, after))
        y = after if self.config.residual is None else (after - z) * self.config.residual
        levels = draws.integers(self.schedule.steps + 1).to(z.device)
        noised, velocity = self.schedule.noised(y, draws.normal(*y.shape[1:]).to(y), levels)
        return (self._velocity(z, noised, levels, told).to(velocity) - velocity).square().mean(dim=(1, 2))

    def trajectory(
        self,
        z: Float[Tensor, "batch token channel"],
        num_steps: int,
        told: Float[Tensor, "batch step condition"] | None = None,
    ) -> Float[Tensor, "batch time token channel"]:
        """z itself, then the tokens of each of `num_steps` frames."""
        generator = torch.Generator().manual_seed(self.config.noise_seed)
        shape = (self.schedule.steps + 1, *z.shape[1:])
        states = [z]
        for step in range(num_steps):
            noise = torch.randn(shape, generator=generator, dtype=torch.float64).to(z)
            states.append(self._following(states[-1], noise, None if told is None else told[:, step]))
        return torch.stack(states, dim=1)

    def _following(self, z: Tensor, noise: Float[Tensor, "level token channel"], told: Tensor | None) -> Tensor:
        z = (z - self.mean) / self.std

        def velocity(y: Tensor, level: int) -> Tensor:
            return self._velocity(z, y, torch.full((len(z),), level, device=z.device), told).to(z)

        y = self.schedule.sample(velocity, list(noise[:, None].expand(-1, *z.shape)))
        after = y if self.config.residual is None else z + y / self.config.residual
        return after * self.std + self.mean

    def _velocity(self, z: Tensor, noised: Tensor, levels: Tensor, told: Tensor | None) -> Tensor:
        return self.network(z, noised, levels.to(z) * (_LONGEST / self.schedule.steps), told)
