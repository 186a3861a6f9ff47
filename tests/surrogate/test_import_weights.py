"""Checkpoints of the published program as surrogates: exact to the bit, equal to its formulas, and nothing in them is run."""

from __future__ import annotations

import io
import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import calm_pde as cp
from calm_pde.cli import main
from calm_pde.data.writing import write
from calm_pde.errors import ConfigError, FileError
from calm_pde.models import CalmConfig
from tests.clouds import relative_error
from tests.surrogate.published import EMBEDDING, Oracle, data, drawn

PRESETS = ("burgers_1d", "navier_stokes_2d", "compressible_3d", "airfoil_2d", "cylinder_2d")
SMALL: dict[str, Any] = {
    "encoder": {"channels": (4, 6), "num_queries": (9, 4), "receptive_field": (0.3, 0.6), "temperature": (1.0, 0.1)},
    "decoder": {"channels": (5,), "num_queries": (8,), "receptive_field": (0.6, 0.3), "temperature": (0.1, 1.0)},
    "processor": {"heads": 2, "fourier_width": 6},
    "kernel_width": 7,
    "fourier_width": 8,
}


def place(folder: Path, preset: str, changes: dict[str, Any] | None = None, **more: Any) -> tuple[CalmConfig, dict[str, Any]]:
    """Arguments of an import, with the files that they name, and the configuration."""
    config = CalmConfig.preset(preset, **(changes or {}))
    write(data(config, **more), folder / "data.h5").close()
    torch.save(drawn(config), folder / "best.pt")
    given = {"checkpoint": folder / "best.pt", "preset": preset, "data": folder / "data.h5", "out": folder / "out"}
    return config, given | ({"changes": changes} if changes else {})


def by_their_names(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Our weights as the published program would save them."""
    found: dict[str, torch.Tensor] = {}
    for part in ("encoder", "decoder"):
        for depth, layer in enumerate(getattr(model, part)):
            kernel, name = layer.kernel, f"{part}{depth}."
            found[f"{name}B"] = kernel.fourier.frequencies
            found[f"{name}linear1.weight"], found[f"{name}linear1.bias"] = kernel.hidden.weight, kernel.hidden.bias
            found[f"{name}linear2.weight"] = kernel.filters[:-1].flatten(1).T
            found[f"{name}filter"] = kernel.filters[-1].flatten()
            found[f"{name}linear.weight"], found[f"{name}linear.bias"] = layer.mix.weight, layer.mix.bias
            found[f"{name}bias"] = layer.bias
            if layer.queries is not None:
                found[f"{name}query_pos"] = layer.queries
                found[f"{name}query_modulation_weight"], found[f"{name}query_modulation_offset"] = kernel.scale, kernel.shift
                for theirs, ours in (("mlp.0", layer.mlp.expand), ("mlp.3", layer.mlp.reduce)):
                    found[f"{name}{theirs}.weight"], found[f"{name}{theirs}.bias"] = ours.weight, ours.bias
    processor: Any = model.processor
    maps = {"in_linear": processor.to_in, "out_linear": processor.to_out}
    for number, block in enumerate(processor.blocks, start=1):
        attention = block.attention
        maps |= {f"self_attn_{number}.in_proj": attention.to_qkv, f"self_attn_{number}.out_proj": attention.to_out}
        maps |= {f"self_attn_{number}.q_norm": attention.norm_query, f"self_attn_{number}.k_norm": attention.norm_key}
        maps |= {f"mlp_{number}.0": block.mlp.expand, f"mlp_{number}.2": block.mlp.reduce}
    for name, ours in maps.items():
        found[f"neural_ode.{name}.weight"], found[f"neural_ode.{name}.bias"] = ours.weight, ours.bias
    found["neural_ode.B"] = processor.fourier.frequencies
    if model.node_types is not None:
        found[EMBEDDING] = model.node_types.weight
    return {name: value.detach() for name, value in found.items()}


@pytest.mark.parametrize("preset", PRESETS)
def test_every_weight_is_there_to_the_bit(preset, tmp_path):
    """In the surrogate, and in its folder read back."""
    _, given = place(tmp_path, preset)
    written, loaded = cp.import_weights(**given), cp.Surrogate.load(tmp_path / "out")
    published = torch.load(tmp_path / "best.pt", weights_only=True)
    for surrogate in (written, loaded):
        found = by_their_names(surrogate.model)
        assert found.keys() == published.keys()
        assert all(torch.equal(value, published[name]) for name, value in found.items())
    assert loaded.model.config == CalmConfig.preset(preset)


@pytest.mark.parametrize("preset", ["navier_stokes_2d", "cylinder_2d", "burgers_1d"])
def test_rollouts_are_those_of_the_published_formulas(preset, tmp_path):
    """From the state dict by its own names, in loops: physical values on physical points."""
    config, given = place(tmp_path, preset, SMALL)
    surrogate = cp.import_weights(**given)
    file = cp.DataFile(tmp_path / "data.h5")
    known, frames = file.description, np.concatenate([file.trajectory(index).fields for index in range(9)])
    mean, std = frames.mean(axis=(0, 1), dtype=np.float64), frames.std(axis=(0, 1), dtype=np.float64, ddof=0)
    std = std * np.sqrt(frames[..., 0].size / (frames[..., 0].size - 1))
    lower, upper = np.array(known.box.lower), np.array(known.box.upper)
    unit, kinds = (known.points - lower) / (upper - lower), known.node_type
    initial = file.trajectory(9).fields[0]
    weights = torch.load(tmp_path / "best.pt", weights_only=True)
    oracle = Oracle(weights, config, known.periodic)
    steps = oracle.rollout((initial - mean) / std, unit, 3, None if kinds is None else kinds.tolist())
    expected = torch.from_numpy(steps * std + mean)
    answers = {}
    for precision in ("single", "double"):
        surrogate.model = surrogate.model.double() if precision == "double" else surrogate.model
        answers[precision] = torch.from_numpy(np.asarray(surrogate.solve(initial, known.points, node_type=kinds)))
    assert answers["single"].shape == expected.shape
    assert relative_error(answers["single"].double(), expected) < 1e-6
    assert relative_error(answers["double"].double(), expected) < 1e-9
    assert float((expected[2] - expected[0]).abs().max()) > 0.01


def test_statistics_box_and_units_are_the_data_files(tmp_path):
    """Mean and deviation of the training and the validation split, which are the published training part together."""
    _, given = place(tmp_path, "navier_stokes_2d", SMALL)
    surrogate = cp.import_weights(**given, frame_stride=2)
    file = cp.DataFile(tmp_path / "data.h5")
    known, card = file.description, surrogate.card
    frames = np.concatenate([file.trajectory(index).fields[::2] for index in range(9)]).astype(np.float64)
    assert len(file.indices("validation")) == 1
    np.testing.assert_allclose(card.statistics.mean, [frames.mean()], rtol=1e-12)
    np.testing.assert_allclose(card.statistics.std, [frames.std(ddof=1)], rtol=1e-12)
    assert (card.lower, card.upper, card.periodic) == (known.box.lower, known.box.upper, (True, True))
    assert card.fields == known.fields
    assert (card.spacing, card.num_frames) == (1.0, 2)
    assert card.provenance["data"] == file.fingerprint
    assert card.provenance["imported"]["checkpoint"] == "best.pt"


def test_an_imported_surrogate_is_evaluated_and_shown_as_any(tmp_path, capsys):
    """On the command line, with what differs from the preset said there."""
    _, given = place(tmp_path, "navier_stokes_2d", SMALL)
    said = [word for name in ("encoder", "decoder") for word in _words(name, SMALL[name])]
    said += [*_words("processor", SMALL["processor"]), "--model.kernel-width", "7", "--model.fourier_width", "8"]
    paths = ["--data", str(given["data"]), "--out", str(given["out"])]
    main(["import-weights", str(given["checkpoint"]), "--preset", "navier_stokes_2d", *paths, *said])
    assert "parameters of best.pt: the surrogate is in" in capsys.readouterr().out.replace("\n", " ")
    found = cp.evaluate(given["out"])
    assert found.num_samples == 1
    assert cp.write_report(given["out"], tmp_path / "report.html").size > 100_000


def _words(part: str, settings: dict[str, Any]) -> list[str]:
    return [
        word
        for name, value in settings.items()
        for word in (f"--model.{part}.{name}", str(list(value) if isinstance(value, tuple) else value))
    ]


FORMS = {
    "prefixed": lambda weights: {f"module.{name}": value for name, value in weights.items()},
    "twice prefixed": lambda weights: {f"module.model.{name}": value for name, value in weights.items()},
    "beside an optimizer": lambda weights: {
        "epoch": 3,
        "model_state_dict": weights,
        "optimizer_state_dict": {"state": {0: {"exp_avg": torch.zeros(3)}}, "param_groups": [{"lr": 1e-3, "params": [0]}]},
    },
    "deeper": lambda weights: {"checkpoint": {"state_dict": {f"model.{name}": value for name, value in weights.items()}}},
    "half": lambda weights: {name: value.half().float().half() for name, value in weights.items()},
    "on other memory": lambda weights: {name: value.T.contiguous().T for name, value in weights.items()},
}


@pytest.mark.filterwarnings("ignore:The use of `x.T` on tensors")
@pytest.mark.parametrize("form", FORMS)
def test_forms_of_checkpoints(form, tmp_path):
    config, given = place(tmp_path, "cylinder_2d", SMALL)
    weights = drawn(config, seed=3)
    torch.save(FORMS[form](weights), given["checkpoint"])
    found = by_their_names(cp.import_weights(**given).model)
    exact = {name: value.half().float() if form == "half" else value for name, value in weights.items()}
    assert all(torch.equal(value, exact[name]) for name, value in found.items())


def test_the_embedding_goes_by_its_place_and_not_by_its_name(tmp_path):
    """What it is called there is not known: the one further weight with an embedding's name is taken."""
    config, given = place(tmp_path, "cylinder_2d", SMALL)
    weights = drawn(config)
    vectors = weights.pop(EMBEDDING)
    torch.save(weights | {"embedding.weight": vectors}, given["checkpoint"])
    assert torch.equal(cp.import_weights(**given).model.node_types.weight, vectors)
    torch.save(weights | {"a_embed.weight": vectors, "b_embed.weight": vectors}, given["checkpoint"])
    with pytest.raises(FileError, match=r"a_embed.weight, which is unknown; b_embed.weight, which is unknown; …embed….weight"):
        cp.import_weights(**given, overwrite=True)


def test_all_that_does_not_fit_is_told_at_once(tmp_path):
    """Unknown, missing and misshapen names, and what the shapes say of the sizes."""
    config, given = place(tmp_path, "navier_stokes_2d", SMALL)
    weights = drawn(config)
    del weights["encoder1.filter"], weights["neural_ode.mlp_2.0.bias"]
    weights |= {
        "encoder0.extra": torch.zeros(2),
        "decoder0.bias": torch.zeros(3),
        "neural_ode.B": torch.full((2, 3), torch.nan),
    }
    weights["decoder1.bias"] = torch.zeros(1, dtype=torch.int64)
    torch.save(weights, given["checkpoint"])
    with pytest.raises(FileError, match="does not fit the preset navier_stokes_2d in 6 weights") as error:
        cp.import_weights(**given)
    told = str(error.value)
    for line in (
        "encoder0.extra, which is unknown",
        "encoder1.filter (24,), which is missing",
        "neural_ode.mlp_2.0.bias (24,), which is missing",
        "decoder0.bias, which has shape (3,), expected (5,)",
        "neural_ode.B, which holds numbers that are not finite",
        "decoder1.bias, which holds int64, expected floating-point numbers",
    ):
        assert line in told
    assert not (tmp_path / "out").exists()


def test_other_sizes_than_the_presets_are_named_as_settings(tmp_path):
    """The message's own words are what makes it fit."""
    _, given = place(tmp_path, "navier_stokes_2d", SMALL)
    rest = {"encoder": SMALL["encoder"] | {"num_queries": (1, 1)}, "processor": {"heads": 2, "width": 16, "fourier_width": 4}}
    with pytest.raises(FileError) as error:
        cp.import_weights(**given | {"changes": SMALL | rest})
    for words in (
        "--model.encoder.num_queries '[9, 4]' (the preset has [1, 1])",
        "--model.processor.width '12' (the preset has 16)",
        "--model.processor.fourier_width '6' (the preset has 4)",
    ):
        assert words in str(error.value)
    with pytest.raises(FileError, match=r"--model.kernel_width '7' .the preset has 32.*--model.fourier_width '8'"):
        cp.import_weights(**given | {"changes": {name: SMALL[name] for name in ("encoder", "decoder", "processor")}})


class Payload:
    """Makes a file when it is unpickled."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.marker),)


def hostile(marker: Path) -> dict[str, bytes]:
    """Files that run code in whoever unpickles them as Python does."""
    found = {f"pickle {protocol}": pickle.dumps({"encoder0.bias": Payload(marker)}, protocol) for protocol in (0, 2, 5)}
    for name, zipped in (("zip", True), ("older", False)):
        buffer = io.BytesIO()
        torch.save({"encoder0.bias": Payload(marker)}, buffer, _use_new_zipfile_serialization=zipped)
        found[name] = buffer.getvalue()
    return found


def test_hostile_files_run_nothing(tmp_path):
    config, given = place(tmp_path, "navier_stokes_2d", SMALL)
    marker = tmp_path / "owned"
    pickle.loads(hostile(marker)["pickle 2"])  # as Python itself would
    marker.rmdir()
    for content in hostile(marker).values():
        given["checkpoint"].write_bytes(content)
        with pytest.raises(FileError, match=r"is not read: it holds .* beside tensors and plain values.*could run any code"):
            cp.import_weights(**given)
        assert not marker.exists()
    given["checkpoint"].write_bytes(hostile(marker)["zip"])
    with pytest.raises(FileError, match=rf"it holds {os.name}.mkdir beside"):
        cp.import_weights(**given)
    torch.save(config.build(), given["checkpoint"])  # a whole model is no state dict, however well meant
    with pytest.raises(FileError, match=r"it holds calm_pde\.models\.calm\.model\.CalmPDE beside"):
        cp.import_weights(**given)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is damaged, or no checkpoint of torch"),
        (b"hello", "is damaged, or no checkpoint of torch"),
        (b"PK\x03\x04", "is damaged, or no checkpoint of torch"),
        ({"epoch": 3}, "holds no weights of the published CALM-PDE, whose names begin with encoder0, decoder0 and neural_ode"),
        ([torch.zeros(2)], "holds no weights of the published CALM-PDE"),
        ({"encoder0.bias": torch.zeros(2), "module.encoder0.bias": torch.zeros(2)}, "holds encoder0.bias twice"),
        ({"encoder0.bias": torch.zeros(2), "epoch": 3}, "holds 'epoch' beside the weights, which is no tensor"),
        ({"encoder0.bias": torch.zeros(2).to_sparse()}, r"encoder0\.bias, which has shape \(2,\), expected \(4,\)"),
    ],
    ids=["empty", "text", "broken zip", "no weights", "a list", "twice", "no tensor", "sparse"],
)
def test_damaged_and_foreign_files_are_told_in_plain_words(content, message, tmp_path):
    _, given = place(tmp_path, "navier_stokes_2d", SMALL)
    if isinstance(content, bytes):
        given["checkpoint"].write_bytes(content)
    else:
        torch.save(content, given["checkpoint"])
    with pytest.raises(FileError, match=message):
        cp.import_weights(**given)


def test_what_does_not_belong_together_is_refused(tmp_path):
    _, given = place(tmp_path, "cylinder_2d", SMALL)
    with pytest.raises(ConfigError, match=r"preset: there is no 'cylinder'. .*cylinder_2d"):
        cp.import_weights(**given | {"preset": "cylinder"})
    with pytest.raises(FileError, match="there is no such file"):
        cp.import_weights(**given | {"checkpoint": tmp_path / "none.pt"})
    for preset, message in (
        ("burgers_1d", "has 2 dimensions, and the model 1"),
        ("navier_stokes_2d", r"has .False, False. periodic axes, and the model .True, True."),
        ("airfoil_2d", "has 3 channels that are given, and the model 4"),
        ("steady_airfoil", "has several frames, and the model one"),
    ):
        with pytest.raises(FileError, match=message):
            cp.import_weights(**given | {"preset": preset, "changes": None})
    with pytest.raises(FileError, match=r"has node types .0, 4, 5, 6., and the model knows .0, 4, 5, 9."):
        cp.import_weights(**given | {"changes": SMALL | {"node_types": (0, 4, 5, 9)}})
    with pytest.raises(
        ConfigError, match=r"model: the published program has no weights for detail\.read\.bias, .* and \d+ more"
    ):
        cp.import_weights(**given | {"changes": SMALL | {"detail": {"channels": 3, "receptive_field": 0.3}}})


def test_only_surrogates_are_replaced(tmp_path):
    _, given = place(tmp_path, "navier_stokes_2d", SMALL)
    first = cp.import_weights(**given)
    with pytest.raises(FileError, match=r"exists already\. Name another folder, or say --overwrite"):
        cp.import_weights(**given)
    assert cp.import_weights(**given, overwrite=True).card == first.card
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis.tex").write_text("years")
    with pytest.raises(FileError, match="is no surrogate folder, and is not replaced"):
        cp.import_weights(**given | {"out": mine}, overwrite=True)
    assert (mine / "thesis.tex").read_text() == "years"
