"""The own scale of a state: against plain numbers, beside a model without it, and refused where it can't be."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import calm_pde as cp
from calm_pde.errors import ConfigError, InputError
from calm_pde.models.calm.own_scale import OwnScale
from tests.clouds import random_cloud, relative_error
from tests.models.calm.test_model import perturbed, small

GROUPS = [[0, 2], [1]]


def scaled(**changes: object) -> cp.CalmPDE:
    return perturbed(small(in_channels=3, own_scale=GROUPS, **changes).build()).double()


def states(batch: int = 2, points: int = 20) -> torch.Tensor:
    return random_cloud(batch * points, 3, seed=3).view(batch, points, 3) - 0.3


def test_scales_are_root_mean_squares_of_their_groups():
    values = states()
    off = OwnScale(((0, 2), (1,)), 3).taken_off(values, None)
    for sample in range(2):
        x = values[sample].numpy()
        both, one = np.sqrt(np.mean(x[:, [0, 2]] ** 2) + 1e-6), np.sqrt(np.mean(x[:, 1] ** 2) + 1e-6)
        expected = np.concatenate([x / [both, one, both], np.log([[both, one]]).repeat(20, axis=0)], axis=1)
        assert np.abs(off[sample].numpy() - expected).max() < 1e-12


def test_a_channel_in_no_group_stays():
    values = states()
    off = OwnScale(((1,),), 3).taken_off(values, None)
    assert torch.equal(off[..., [0, 2]], values[..., [0, 2]])
    assert off.shape[-1] == 4


def test_the_model_is_the_plain_one_between_scales():
    """Encoded is x/s beside log s; what a model without scales, which the oracle knows, says of that is multiplied by s."""
    model, points, values = scaled(), random_cloud(20, 2, seed=1), states()
    plain = small(in_channels=5, out_channels=3).build().double()
    plain.load_state_dict(model.state_dict())
    both, one = (values[..., group].square().mean(dim=(1, 2)).add(1e-6).sqrt() for group in GROUPS)
    s = torch.stack([both, one, both], dim=1)[:, None]
    told = torch.stack([both, one], dim=1).log()[:, None].expand(-1, 20, -1)
    expected = plain(torch.cat([values / s, told], dim=2), points, 2) * s[:, None]
    assert relative_error(model(values, points, 2), expected) < 1e-12


@pytest.mark.parametrize("own_meshes", [False, True])
def test_masked_points_count_for_nothing(own_meshes):
    model, values = scaled(), states()
    clouds = torch.stack([random_cloud(20, 2, seed) for seed in (1, 2)])
    mask = torch.arange(20) < torch.tensor([[20], [13]])
    points = clouds if own_meshes else clouds[0]
    found = model(values.masked_fill(~mask[..., None], torch.nan), points, 2, mask=mask)
    own = clouds[1] if own_meshes else clouds[0]
    assert relative_error(found[1, :, :13], model(values[1:, :13], own[:13], 2)[0]) < 1e-12


def test_every_door_puts_the_scale_on():
    """forward, encode and decode, the baked form, single steps from true frames: one answer."""
    model, points, values = scaled(), random_cloud(20, 2, seed=1), states()
    found = model(values, points, 2)
    z, p = model.encode(values, points)
    zs = model.advance(z, p, 2)
    assert relative_error(model.decode(zs, p, points, start=cp.Inputs(values, points))[:, 1:], found) < 1e-12
    with pytest.raises(InputError, match=r"start: expected the state that was encoded.*own_scale.*got none"):
        model.decode(zs, p, points)
    assert relative_error(model.bake(points)(values, 2), found) < 1e-10
    pair = torch.stack([values, 3 * values], dim=1)
    assert relative_error(model.following(pair, points)[:, 1], model(3 * values, points, 1)[:, 0]) < 1e-12


def test_it_is_refused_where_it_can_not_be():
    for groups in ([[0, 3]], [[0], [0, 1]], [[]]):
        with pytest.raises(ConfigError, match="own_scale: expected groups of the 3 channels"):
            small(in_channels=3, own_scale=groups)
    with pytest.raises(ConfigError, match="own_scale: answers get the scale of the same channel"):
        small(in_channels=2, own_scale=[[0]])
    with pytest.raises(ConfigError, match="own_scale: staged and consistency"):
        small(in_channels=3, own_scale=[[0]], consistency=0.1)


def test_without_it_nothing_is_different():
    one, other = small(in_channels=3).build(seed=3), small(in_channels=3, own_scale=[]).build(seed=3)
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))
    assert not one.config.zero_stays
