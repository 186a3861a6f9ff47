"""Configurations: round trips, presets, and what is said about a mistake."""

from __future__ import annotations

import pytest

import calm_pde as cp
from calm_pde.errors import ConfigError
from calm_pde.models.calm.presets import PRESETS


@pytest.mark.parametrize("name", PRESETS)
def test_presets_survive_json(name):
    config = cp.CalmConfig.preset(name)
    again = cp.CalmConfig.model_validate_json(config.model_dump_json())
    assert again == config
    assert again.model_dump_json() == config.model_dump_json()


def test_changes_are_laid_over_a_preset():
    config = cp.CalmConfig.preset("navier_stokes_2d", modulation=False, encoder={"temperature": (2.0, 2.0, 2.0)})
    assert config.encoder.temperature == (2.0, 2.0, 2.0)
    assert config.encoder.num_queries == (1024, 256, 16)
    assert not config.modulation
    assert cp.CalmConfig.preset("navier_stokes_2d").encoder.temperature == (1.0, 1.0, 0.1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"modulaton": False}, "unknown key 'modulaton'. Did you mean 'modulation'?"),
        ({"encoder": {"temperatur": (1, 1, 1)}}, "encoder: unknown key 'temperatur'. Did you mean 'temperature'?"),
        ({"xyz": 1}, "unknown key 'xyz'. Known are: "),
        ({"encoder": {"temperature": (1.0,)}}, "encoder: temperature needs 3 entries beside 3 channels, got 1"),
        ({"decoder": {"receptive_field": (0.1, 0.1, 1.5)}}, "decoder: receptive_field: 2: "),
        ({"encoder": {"mesh_prior": (True,)}}, "mesh_prior needs 3 entries"),
        ({"encoder": {"reach": (0.5,)}}, "encoder: reach needs 3 entries beside 3 channels, got 1"),
        ({"encoder": {"reach": (0.5, -0.1, 0)}}, "encoder: reach: 1: "),
        ({"encoder": {"reach": (0.5, 0, 1.1)}}, "encoder: reach: 2: "),
        ({"decoder": {"reach": (0.5, 0.5)}}, "decoder: reach is for the encoder, whose queries see the state; leave it out"),
        ({"encoder": {"channels": (), "num_queries": (), "receptive_field": (), "temperature": ()}}, "at least one layer"),
        ({"processor": {"heads": 7}}, "processor.heads must divide the processor's width 256, got 7"),
        ({"processor": {"damping": "ful"}}, "processor: damping: "),
        ({"dim": 0}, "dim: "),
        ({"dropout": 1.0}, "dropout: "),
        ({"fourier_width": 7}, "fourier_width: "),
        ({"periodic": (True,)}, "periodic: expected True, False or 2 of them"),
        ({"task": "stationary"}, "task: "),
        ({"kernel": "distance", "weighting": "mean"}, "the distance kernel is itself a softmax"),
        ({"node_types": (0, 4, 4)}, "node_types must differ"),
        ({"staged": True, "task": "steady"}, "staged is for steps in time; leave it out where task is 'steady'"),
        ({"staged": True, "task": "autoencoder"}, "staged is for steps in time; leave it out where task is 'autoencoder'"),
        ({"consistency": 0.1, "task": "autoencoder"}, "consistency is for steps in time"),
        ({"consistency": -0.1}, "consistency: "),
        ({"place": {"fourier_width": 7}}, "place: fourier_width: "),
        ({"place": {"scale": 0.0}}, "place: scale: "),
        ({"place": {"chanels": 4}}, "place: unknown key 'chanels'. Did you mean 'channels'?"),
        (
            {"place": {"channels": 4}, "detail": {"channels": 6, "receptive_field": 0.1}},
            "place.channels: what is told joins the detail path's 6 (detail.channels) as one term; give as many, got 4",
        ),
        ({"staged": True, "out_channels": 2}, "staged encodes true frames: out_channels must be 1, got 2"),
    ],
)
def test_mistakes_are_named(changes, message):
    with pytest.raises(ConfigError) as error:
        cp.CalmConfig.preset("navier_stokes_2d", **changes)
    assert message in str(error.value)
    assert isinstance(error.value, ValueError)


@pytest.mark.parametrize(
    "make",
    [
        lambda text: cp.CalmConfig.model_validate_json(text),
        lambda text: cp.CalmConfig(dims=2),
        lambda text: cp.CalmConfig.model_validate({"dims": 2}),
    ],
)
def test_every_way_in_gives_the_same_error(make):
    with pytest.raises(ConfigError, match="Did you mean 'dim'"):
        make('{"dims": 2}')


def test_unknown_preset():
    with pytest.raises(ConfigError, match=r"there is no 'navier_stokes'\. Did you mean 'navier_stokes_2d'"):
        cp.CalmConfig.preset("navier_stokes")


def test_a_config_is_frozen():
    with pytest.raises(ValueError, match="frozen"):
        cp.CalmConfig.preset("burgers_1d").dim = 2
