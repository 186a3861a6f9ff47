"""Checkpoints: a verified folder per save, the newest good one found again, and all that an exact resume needs."""

from __future__ import annotations

import random
import re
import shutil
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from calm_pde.errors import FileError
from calm_pde.files.folders import Folder, recover, replace_file, write_folder
from calm_pde.types import Tensor

_PREFIX = "step_"


@dataclass
class Position:
    """Where training stands: `batch` batches of `epoch` are done, `step` in all."""

    epoch: int = 0
    batch: int = 0
    step: int = 0
    skipped: int = 0
    best: float = float("inf")
    best_epoch: int = -1
    seconds: float = field(default=0.0, compare=False)
    """What training took so far; the only thing that no resume brings back equal."""
    losses: list[float] = field(default_factory=list)
    """Of the epoch at hand, so that its mean is that of the whole epoch after a resume too."""


@dataclass(frozen=True)
class Checkpoint:
    """What a save holds; tensors by name, and the settings that a resume must find again."""

    position: Position
    settings: dict[str, Any]
    weights: dict[str, Tensor]
    optimizer: dict[str, Tensor]
    best: dict[str, Tensor]
    average: dict[str, Tensor]
    queries: dict[str, Tensor]


def save(folder: Path, checkpoint: Checkpoint, keep: int) -> None:
    """Write step_N, point `latest` at it, and remove all but the newest `keep`.

    Those of later steps go too: a run that saves step N has found them damaged.
    """
    name = f"{_PREFIX}{checkpoint.position.step:09d}"
    tensors = {
        "weights": checkpoint.weights,
        "optimizer": checkpoint.optimizer,
        "best": checkpoint.best,
        "average": checkpoint.average,
        "queries": checkpoint.queries,
        "random": _random_tensors(),
    }
    state = {"position": asdict(checkpoint.position), "settings": checkpoint.settings, "random": _random_numbers()}
    write_folder(folder / name, tensors, {"state": state})
    replace_file(folder / "latest", name.encode())
    kept = [path for path in saved(folder) if path.name <= name][-keep:]
    for other in [*saved(folder), *folder.glob(f".{_PREFIX}*")]:
        if other not in kept:
            shutil.rmtree(other, ignore_errors=True)


def saved(folder: Path) -> list[Path]:
    """The checkpoints in a folder, oldest first."""
    return sorted(path for path in folder.glob(f"{_PREFIX}*") if re.fullmatch(r"step_\d{9,}", path.name) and path.is_dir())


def load_newest(folder: Path) -> tuple[Checkpoint, list[FileError]] | None:
    """The newest checkpoint that is whole, and what is wrong with newer ones; None where nothing was saved yet."""
    for aside in folder.glob(f".{_PREFIX}*.old"):
        recover(folder / aside.name[1 : -len(".old")])
    damaged: list[FileError] = []
    for path in reversed(saved(folder)):
        try:
            return load(path), damaged
        except FileError as error:
            damaged.append(error)
    if damaged:
        raise FileError(folder, f"no checkpoint can be read; the newest: {damaged[0]}", fix="Start a new run.")
    return None


def load(path: Path) -> Checkpoint:
    found = Folder(path)
    state = found.document("state")
    try:
        position = Position(**state["position"])
        settings = state["settings"]
        wanted = checkpoint_path(path.parent, position)
    except (KeyError, TypeError, ValueError) as error:
        raise FileError(path / "state.json", f"is incomplete ({error!r})") from error
    if path != wanted:
        raise FileError(path, f"holds step {position.step}", fix="Its name was changed.")
    return Checkpoint(
        position,
        settings,
        found.tensors("weights"),
        found.tensors("optimizer"),
        found.tensors("best"),
        found.tensors("average"),
        found.tensors("queries"),
    )


def restore_random(path: Path) -> None:
    """All random states as they were at a save."""
    found = Folder(path)
    tensors, state = found.tensors("random"), found.document("state")
    try:
        torch.set_rng_state(tensors["torch"])
        if torch.cuda.is_available() and "cuda" in tensors:
            torch.cuda.set_rng_state(tensors["cuda"])
        version, internal, gauss = state["random"]["python"]
        random.setstate((version, tuple(internal), gauss))
        kind, position, has_gauss, cached = state["random"]["numpy"]
        words = tensors["numpy"].numpy().astype(np.uint32)
        np.random.set_state((kind, words, position, has_gauss, cached))  # noqa: NPY002
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        raise FileError(path / "random.safetensors", f"holds no random states ({error!r})") from error


def checkpoint_path(folder: Path, position: Position) -> Path:
    return folder / f"{_PREFIX}{position.step:09d}"


def _random_tensors() -> dict[str, Tensor]:
    found = {"torch": torch.get_rng_state(), "numpy": torch.from_numpy(np.random.get_state()[1].astype(np.int64))}  # noqa: NPY002  # pyright: ignore
    if torch.cuda.is_available():
        found["cuda"] = torch.cuda.get_rng_state()
    return found


def _random_numbers() -> dict[str, Any]:
    kind, _, position, has_gauss, cached = np.random.get_state()  # noqa: NPY002  # pyright: ignore
    return {"python": list(random.getstate()), "numpy": [kind, position, has_gauss, cached]}
