"""UPT: counts, the model written out, supernodes in any order, its inverse losses, its steady form."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from calm_pde.config import merged
from calm_pde.errors import ConfigError
from calm_pde.models.size import num_parameters
from calm_pde.models.upt.config import UptConfig
from calm_pde.models.upt.encoder import Read, SupernodeReader, connected
from calm_pde.models.upt.model import Upt
from calm_pde.models.upt.supernodes import supernodes
from calm_pde.records.inputs import Frames
from tests.clouds import random_cloud, relative_error
from tests.models.upt import upt_oracle as oracle
from tests.oracle import weights_of

NODES = {"count": 8, "radius": 0.3, "most_neighbors": 4, "feature_width": 6, "width": 8, "heads": 2, "blocks": 2}
SIZES = {"dim": 2, "in_channels": 2, "out_channels": 2, "tokens": 4, "width": 12, "heads": 3, "blocks": 2, "supernodes": NODES}
OTHERS = {"decoder_blocks": 1, "query_expansion": 2}


def config(**changes: Any) -> UptConfig:
    return UptConfig.model_validate(merged(SIZES | OTHERS, changes))


def stirred(config: UptConfig, dtype: torch.dtype = torch.float64) -> Upt:
    """What starts at zero or one moved away from it."""
    model, generator = config.build(seed=3), torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.2 * torch.randn(parameter.shape, generator=generator)
    return model.to(dtype)


def states(count: int = 14, dim: int = 2, batch: int = 2) -> tuple[torch.Tensor, torch.Tensor]:
    points = torch.stack([random_cloud(count, dim, seed) for seed in range(batch)])
    return random_cloud(batch * count, 2, seed=7).view(batch, count, 2) - 0.5, points


def closed_form(config: UptConfig) -> int:
    """Of the formulas: a block of width w is 12w² + 13w, 2w more and 6w(t + 1) for each t that is told."""
    p, t, given = config.width, config.told_width, config.given_channels

    def linear(i: int, o: int) -> int:
        return i * o + o

    def block(w: int, context: bool = False) -> int:
        return 12 * w**2 + 13 * w + 2 * w * context + (linear(t, 6 * w) if t else 0)

    nodes, hidden = config.supernodes, config.query_expansion * p
    if nodes is None:
        reader, e = given * p + linear(p, 4 * p) + linear(4 * p, p), p
    else:
        g, e = nodes.feature_width, nodes.width
        reader = linear(given, g) + 2 * linear(g, g) + linear(2 * g, 2 * g) + linear(2 * g, g) + linear(g, g) + linear(g, e)
        reader += nodes.blocks * block(e)
    encoder = reader + linear(e, p) + config.tokens * p + block(p, True)
    decoder = config.decoder_blocks * block(p) + linear(p, hidden) + linear(hidden, hidden) + linear(hidden, p)
    decoder += block(p, True) + 2 * p + linear(p, config.out_channels)
    known = linear(config.told_channels, t) + linear(t, t) if t else 0
    kinds = len(config.node_types) * config.node_type_width
    return encoder + config.blocks * block(p) + decoder + known + kinds


@pytest.mark.parametrize("told", [{}, {"parameters": 2}, {"parameters": 1, "features": 3}])
@pytest.mark.parametrize("name", UptConfig.presets)
def test_parameter_counts(name, told):
    chosen = UptConfig.preset(name, **told)
    assert num_parameters(chosen.build()) == closed_form(chosen)
    if name.endswith("_small"):
        assert closed_form(chosen) <= (700_000 if told else 500_000)


def test_published_sizes():
    """The flow configuration has 17 M with its two conditions; the steady one 28,389,377 where only places are read."""
    assert closed_form(UptConfig.preset("navier_stokes_2d", parameters=2)) == 17_217_313
    for name in ("elasticity", "steady_airfoil"):
        steady = UptConfig.preset(name)
        assert closed_form(steady) - steady.in_channels * steady.width == 28_389_377


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize(
    "changes",
    [
        {"periodic": (True, False), "node_types": (0, 4, 6), "features": 1},
        {"supernodes": None, "features": 2},
        {"dim": 1, "supernodes": {"count": 50, "radius": 0.05}, "parameters": 2, "signals": 1},
        {"dim": 3, "decoder_blocks": 0},
    ],
    ids=["mesh", "all points", "told", "3d"],
)
def test_equals_the_oracle(changes, dtype):
    chosen = config(**changes)
    model, (values, points) = stirred(chosen, dtype), states(dim=chosen.dim)
    mask, asked = torch.arange(14) < torch.tensor([[14], [9]]), random_cloud(5, chosen.dim, seed=9)
    codes = torch.tensor(chosen.node_types)[torch.arange(14) % 3].expand(2, -1) if chosen.node_types else None
    told = {name: random_cloud(2, getattr(chosen, name), seed=3) for name in ("parameters",) if getattr(chosen, name)}
    told |= {"signals": random_cloud(6, 1, seed=4).view(2, 3, 1)} if chosen.signals else {}
    told |= {"features": random_cloud(28, chosen.features, seed=5).view(2, 14, -1)} if chosen.features else {}
    given = {"values": values, "points": points, "queries": asked} | told
    found = model(**{name: value.to(dtype) for name, value in given.items()}, num_steps=2, mask=mask, node_type=codes)
    w = weights_of(model)
    for sample in range(2):
        real = mask[sample].nonzero().flatten().tolist()
        read = [values[sample, real]] + ([told["features"][sample, real]] if chosen.features else [])
        if codes is not None:
            rows = [chosen.node_types.index(int(code)) for code in codes[sample, real]]
            read.append(torch.from_numpy(w["node_types.weight"])[rows])

        def known(t: int, u: int, sample: int = sample) -> np.ndarray | None:
            if not chosen.told_channels:
                return None
            signals = told["signals"][sample, [t, u]].flatten()
            return oracle.told(oracle.part(w, "told."), torch.cat([told["parameters"][sample], signals]).numpy())

        z = oracle.encode(w, torch.cat(read, dim=-1).numpy(), points[sample, real].numpy(), chosen, known(0, 0))
        for step in range(2):
            z = oracle.blocks(w, "blocks", z, chosen.heads, known(step, step + 1))
            wanted = oracle.decode(w, z, asked.numpy(), chosen, known(step + 1, step + 1))
            bar = 1e-12 if dtype == torch.float64 else 1e-4
            assert relative_error(found[sample, step], torch.from_numpy(wanted)) < bar


@pytest.mark.parametrize("count", [5, 14, 30])
def test_the_order_of_supernodes_does_not_matter(count):
    """The latent tokens are the same however the supernodes are listed, those of a smaller mesh among padded ones too."""
    chosen = config(supernodes={"count": count})
    model, (values, points) = stirred(chosen), states()
    mask, nodes = torch.arange(14) < torch.tensor([[14], [9]]), chosen.supernodes
    assert nodes is not None
    which, valid = supernodes(points, mask, count, (False, False))
    orders = (torch.arange(which.shape[1]), torch.randperm(which.shape[1], generator=torch.Generator().manual_seed(1)))
    x, found = values.masked_fill(~mask[..., None], 0.0), []
    for order in orders:
        read = Read(points, mask, connected(points, mask, which[:, order], valid[:, order], nodes, (False, False)))
        found.append((model.encoder.reader(x, read, None)[0], model.encoder(x, read, None)))
    (nodes_as_they_are, tokens), (nodes_moved, again) = found
    assert relative_error(nodes_moved, nodes_as_they_are[:, orders[1]]) < 1e-12
    assert relative_error(again, tokens) < 1e-12


def test_messages_are_means_over_near_points():
    """Those of a mesh with each point twice, as often as one likes, are those of the mesh."""
    model, (values, points) = stirred(config(supernodes={"most_neighbors": 1000})), states()
    reader, nodes = model.encoder.reader, model.config.supernodes
    assert isinstance(reader, SupernodeReader)
    assert nodes is not None
    which, valid = supernodes(points, None, 8, (False, False))
    once, twice = points, torch.cat([points, points], dim=1)
    found = []
    for where, x in ((once, values), (twice, torch.cat([values, values], dim=1))):
        graph = connected(where, None, which, valid, nodes, (False, False))
        found.append(reader.messages(reader.located(x, Read(where, None, graph)), graph))
    assert relative_error(found[1], found[0]) < 1e-12


def test_inverse_losses_are_of_frame_0_decoded_and_of_answers_encoded_again():
    """Added with their weights; each is a relative error, by hand."""
    weighed = config(inverse_encoding=0.5, inverse_decoding=0.25, parameters=1, signals=1)
    model, (values, points) = stirred(weighed), states()
    told = {"parameters": random_cloud(2, 1, seed=3), "signals": random_cloud(8, 1, seed=4).view(2, 4, 1)}
    true = torch.stack([values, 2 * values, 3 * values], dim=1)
    answer = model.training_answer(Frames(true, points, **told), [1.0, 2.0])
    w, each = weights_of(model), []
    for sample in range(2):
        p = points[sample].numpy()

        def known(t: int, u: int, sample: int = sample) -> np.ndarray:
            signals = told["signals"][sample, [t, u]].flatten()
            return oracle.told(oracle.part(w, "told."), torch.cat([told["parameters"][sample], signals]).numpy())

        z = oracle.encode(w, values[sample].numpy(), p, weighed, known(0, 0))
        back, u = oracle.decode(w, z, p, weighed, known(0, 0)), values[sample].numpy()
        inverse = 0.5 * np.mean([np.linalg.norm(back[:, c] - u[:, c]) / np.linalg.norm(u[:, c]) for c in range(2)])
        for t in (1, 2):
            z = oracle.blocks(w, "blocks", z, weighed.heads, known(t - 1, t))
            again = oracle.encode(w, oracle.decode(w, z, p, weighed, known(t, t)), p, weighed, known(t, t))
            inverse += 0.25 * np.linalg.norm(again - z) / np.linalg.norm(z) / 2
        each.append(inverse)
    torch.testing.assert_close(answer.added, torch.tensor(each).double(), rtol=1e-10, atol=0)
    plain = stirred(config(parameters=1, signals=1)).training_answer(Frames(true, points, **told), [1.0, 2.0])
    assert plain.added == 0.0
    assert torch.equal(plain.predicted, answer.predicted)


def test_paths_are_dropped_in_training_alone():
    """Each half of a block for whole samples, and the others make up for it."""
    model, (values, points) = stirred(config(dropped_paths=0.5)), states(batch=1)
    torch.manual_seed(0)
    many = model.train()(values.expand(2000, -1, -1), points[0], 1)
    kept = model.eval()(values, points, 1)
    kinds = many[:, 0, 0, 0].detach().unique(return_counts=True)[1]
    assert len(kinds) == 16  # two blocks of two halves
    assert int(kinds.min()) > 60
    assert torch.equal(kept, model(values, points, 1))


def test_the_steady_form_has_one_answer():
    """Through the latent transformer once; on the features alone, wherever it is asked."""
    chosen = config(task="steady", out_channels=1, parameters=1)
    model, (values, points) = stirred(chosen), states()
    told, asked = {"parameters": random_cloud(2, 1, seed=3)}, random_cloud(5, 2, seed=9)
    found, w = model(values, points, queries=asked, **told), weights_of(model)
    assert found.shape == (2, 1, 5, 1)
    for sample in range(2):
        c = oracle.told(oracle.part(w, "told."), told["parameters"][sample].numpy())
        z = oracle.encode(w, values[sample].numpy(), points[sample].numpy(), chosen, c)
        wanted = oracle.decode(w, oracle.blocks(w, "blocks", z, chosen.heads, c), asked.numpy(), chosen, c)
        assert relative_error(found[sample, 0], torch.from_numpy(wanted)) < 1e-12
    answer = model.training_answer(Frames(values[:, None], points, **told), [])
    assert torch.equal(answer.predicted, model(values, points, 1, **told))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"heads": 5}, "heads must divide the width 12, got 5"),
        ({"supernodes": {"heads": 3}}, "supernodes.heads must divide their width 8, got 3"),
        ({"supernodes": {"feature_width": 2}}, "supernodes.feature_width must be at least 4"),
        ({"out_channels": 1}, "out_channels must be 2, got 1"),
        ({"task": "steady", "inverse_encoding": 1.0}, "inverse_encoding is of a state that is answered too"),
        ({"node_types": (4, 4)}, "node_types must differ"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(changes, message):
    with pytest.raises(ConfigError, match=message):
        config(**changes)
