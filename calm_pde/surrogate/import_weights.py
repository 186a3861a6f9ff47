"""From the authors' world: a checkpoint of the published CALM-PDE program as a surrogate folder."""

from __future__ import annotations

import hashlib
import os
import pickle
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from calm_pde.data.dataset import Dataset
from calm_pde.data.statistics import statistics
from calm_pde.data.storage import DataFile
from calm_pde.errors import ConfigError, FileError
from calm_pde.files.folders import MANIFEST
from calm_pde.geometry import periodic_axes
from calm_pde.models import OURS, CalmConfig, Model
from calm_pde.origin import origin
from calm_pde.surrogate.published import NODE_TYPES, Shape, bare, embedding, ours, roles, sizes
from calm_pde.surrogate.surrogate import Surrogate, card_of, load_weights
from calm_pde.types import Tensor

_DEPTH = 3  # of dictionaries, in which a state dict may stand


def import_weights(
    checkpoint: str | os.PathLike[str],
    preset: str,
    data: DataFile | str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    changes: Mapping[str, Any] | None = None,
    fields: Sequence[str] = (),
    frame_stride: int = 1,
    overwrite: bool = False,
) -> Surrogate:
    """The surrogate of a checkpoint that the published program has saved, written as a folder.

    Sizes are those of the preset, which every shape must fit. What stands in no checkpoint comes from the preset (receptive
    fields, temperatures, heads, periodic axes) and from the data file (mean and deviation of the published training part,
    which is our training and validation split; box and units). Nothing in the checkpoint is executed.

    Args:
        checkpoint: a state dict as torch saves it, alone or beside optimizer state.
        preset: of CALM-PDE, such as navier_stokes_2d.
        data: the file that the published data were converted to.
        changes: laid over the preset.
        fields: of the file, in the order of the published channels; by default its targets.
        frame_stride: take every so many-th frame of the file.
        overwrite: replace a surrogate that is in the folder.
    """
    source, folder = Path(checkpoint), Path(out)
    _check_place(folder, overwrite)
    config = CalmConfig.preset(preset, **(changes or {}))
    published, digest = state_dict(source)
    train, validation = _parts(data, fields, frame_stride)
    _check_data(config, train)
    model = config.build().eval()
    weights = _matched(published, model, source, preset)
    load_weights(model, ours(model, weights), source)
    file = train.file
    told = {"file": str(file.path), "fields": list(train.fields), "frame_stride": frame_stride, "conditions": False}
    provenance = {
        "recipe": {"name": f"{preset}, imported", "data": told, "model": {"kind": OURS, "preset": preset, **(changes or {})}},
        "data": file.fingerprint,
        "imported": {"checkpoint": source.name, "sha256": digest},
    }
    card = card_of(OURS, config, train, statistics(train, also=validation), provenance | origin())
    surrogate = Surrogate(model, card)
    surrogate.save(folder)
    return surrogate


def state_dict(path: Path) -> tuple[dict[str, Tensor], str]:
    """The named tensors of a checkpoint that look most like the published model's, without prefixes; and its SHA-256.

    Whatever else stands in the file, such as an optimizer's state, is left aside.
    """
    best = max(_mappings(_read(path), _DEPTH), key=_likeness, default={})
    if not _likeness(best):
        raise FileError(
            path,
            "holds no weights of the published CALM-PDE, whose names begin with encoder0, decoder0 and neural_ode",
            fix="Give the checkpoint that its training saved.",
        )
    found: dict[str, Tensor] = {}
    for name, value in best.items():
        if not isinstance(name, str) or not isinstance(value, torch.Tensor):
            raise FileError(path, f"holds {name!r} beside the weights, which is no tensor", fix="Take it out.")
        if bare(name) in found:
            raise FileError(path, f"holds {bare(name)} twice, with another prefix", fix="Keep the weights of one model.")
        found[bare(name)] = value.detach()
    return found, hashlib.sha256(path.read_bytes()).hexdigest()


def _read(path: Path) -> Any:
    if not path.is_file():
        raise FileError(path, "there is no such file", fix="Name the checkpoint, a file that torch.save wrote.")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of protocols that torch does not write itself
            # weights_only: torch's own unpickler makes tensors, numbers, strings and plain containers of them and nothing else.
            # It refuses every other class and function by name and looks none of them up: nothing of a foreign file is run.
            return torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        named = re.search(r"GLOBAL ([\w.]+)", str(error))
        what = named[1] if named else "something"
        raise FileError(
            path,
            f"is not read: it holds {what} beside tensors and plain values, and to load that could run any code",
            fix="Save the state dict alone: torch.save(model.state_dict(), file).",
        ) from error
    except Exception as error:  # of a damaged file, whatever it makes of torch's reader
        reason = f"{type(error).__name__}: {error}".partition("\n")[0].partition(". ")[0]
        fix = "Give the file as it was saved."
        raise FileError(path, f"is damaged, or no checkpoint of torch ({reason})", fix=fix) from error


def _mappings(content: Any, depth: int) -> Iterator[Mapping[Any, Any]]:
    """A dictionary and those in it."""
    if not isinstance(content, Mapping) or not depth:
        return
    yield content
    for value in content.values():
        yield from _mappings(value, depth - 1)


def _likeness(content: Mapping[Any, Any]) -> int:
    """How many of the names are such as the published model has."""
    names = [bare(name) for name, value in content.items() if isinstance(name, str) and isinstance(value, torch.Tensor)]
    return sum(re.match(r"(encoder|decoder)\d+\.|neural_ode\.", name) is not None for name in names)


def _matched(published: Mapping[str, Tensor], model: Model, path: Path, preset: str) -> dict[str, Tensor]:
    """The weights by their published names; all that are unknown, missing or of another shape are told of at once."""
    known, without = roles(model)
    if without:
        raise ConfigError(
            f"model: the published program has no weights for {_listed(without)}. Leave out what the paper's model has not."
        )
    found = dict(published)
    vectors = embedding(name for name in published if name not in known) if NODE_TYPES in known else None
    if vectors is not None:
        found[NODE_TYPES] = found.pop(vectors)
    wrong = [f"{name}, which is unknown" for name in found if name not in known]
    wrong += [f"{name} {role.shape}, which is missing" for name, role in known.items() if name not in found]
    for name, role in known.items():
        if name in found:
            wrong += [f"{name}, which {problem}" for problem in _misfits(found[name], role.shape)]
    if wrong:
        raise FileError(
            path,
            f"does not fit the preset {preset} in {len(wrong)} weights: {'; '.join(wrong)}",
            fix=_advice(sizes(found), model),
        )
    return found


def _misfits(value: Tensor, shape: Shape) -> Iterator[str]:
    if tuple(value.shape) != shape:
        yield f"has shape {tuple(value.shape)}, expected {shape}"
    elif value.layout != torch.strided or not value.is_floating_point():
        yield f"holds {value.dtype}, expected floating-point numbers".replace("torch.", "")
    elif not bool(torch.isfinite(value).all()):
        yield "holds numbers that are not finite"


def _advice(found: Mapping[str, object], model: Model) -> str:
    """The settings that the shapes tell otherwise than the configuration, to choose another preset by or to say."""
    different = []
    for name, value in found.items():
        wanted: Any = model.config
        for part in name.split("."):
            wanted = getattr(wanted, part)
        if name == "processor.width":
            wanted = getattr(model.config, "processor_width", wanted)
        if value != wanted:
            told = list(value) if isinstance(value, tuple) else value
            different.append(
                f"--model.{name} '{told}' (the preset has {list(wanted) if isinstance(wanted, tuple) else wanted})"
            )
    if not different:
        return "Give the preset that the model was trained with."
    return f"Give the preset that the model was trained with, or say what its shapes tell: {', '.join(different)}."


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _parts(
    data: DataFile | str | os.PathLike[str], fields: Sequence[str], frame_stride: int
) -> tuple[Dataset, tuple[Dataset, ...]]:
    """The training split, and the validation split where there is one."""
    file = data if isinstance(data, DataFile) else DataFile(Path(data))
    names = ["train", *(["validation"] if len(file.indices("validation")) else [])]
    train, *others = (Dataset(file, name, fields=fields, frame_stride=frame_stride, conditions=()) for name in names)
    return train, tuple(others)


def _check_data(config: CalmConfig, data: Dataset) -> None:
    """The file has what the configuration was made for."""
    known, path = data.description, data.file.path
    steady = config.task == "steady"
    given = (len(known.features) or known.box.dim) if steady else len(known.fields)
    wanted = {
        "dimensions": (config.dim, known.box.dim),
        "frames": ("one" if steady else "several", "one" if known.steady else "several"),
        "periodic axes": (periodic_axes(config.periodic, config.dim), known.periodic),
        "channels that are given": (config.in_channels, given),
        "channels that are answered": (config.out_channels, len(known.fields)),
    }
    for what, (expected, got) in wanted.items():
        if expected != got:
            raise FileError(path, f"has {got} {what}, and the model {expected}", fix="Give the data that it was trained on.")
    strange = sorted(set(known.node_types) - set(config.node_types)) if config.node_types else []
    if strange or (config.node_types and not known.node_types):
        raise FileError(
            path,
            f"has node types {tuple(sorted(known.node_types))}, and the model knows {config.node_types}",
            fix="Give the data that it was trained on, or say its codes in their order: --model.node-types '[0, 4, 5, 6]'.",
        )


def _check_place(folder: Path, overwrite: bool) -> None:
    """Nothing but a surrogate is replaced."""
    if not folder.exists():
        return
    if not overwrite:
        raise FileError(folder, "exists already", fix="Name another folder, or say --overwrite.")
    if not (folder / MANIFEST).is_file():
        raise FileError(folder, "is no surrogate folder, and is not replaced", fix="Name another folder.")
