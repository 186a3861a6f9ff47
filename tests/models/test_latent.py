"""Latent numbers: the paper's table."""

from __future__ import annotations

import pytest

from calm_pde.models import MODELS

POINTS = {"burgers_1d": 1024, "navier_stokes_2d": 4096, "compressible_3d": 64**3, "airfoil_2d": 5233, "cylinder_2d": 1885}
PAPER = {
    "calm": (512, 2048, 16384, 2048, 2048),
    "fno": (2048, 18816, 276480, None, None),
    "oformer": (98304, 786432, None, 669824, 241280),  # in 3-D the paper counts another width
    "pit": (65536, 65536, 131072, 65536, 65536),
    "lno": (12288, 24576, 16384, 24576, 22528),
}


@pytest.mark.parametrize("kind", PAPER)
def test_sizes_are_the_papers(kind):
    for (problem, points), wanted in zip(POINTS.items(), PAPER[kind], strict=True):
        if wanted is not None:
            assert MODELS[kind].preset(problem).latent_numbers(points) == wanted, problem


def test_every_model_is_counted():
    for config in MODELS.values():
        for preset in config.presets:
            assert config.preset(preset).latent_numbers(100), (config, preset)
