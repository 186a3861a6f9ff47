"""Checkpoints: a verified folder per save, the newest good one found again, and all that an exact resume needs."""

from __future__ import annotations

import random
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from calm_pde.errors import FileError
from calm_pde.folders import Folder, replace_file, write_folder
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


@dataclass(frozen=True)
class Checkpoint:
    """What a save holds; tensors by name, and the settings that a resume must find again."""

    position: Position
    settings: dict[str, Any]
    weights: dict[str, Tensor]
    optimizer: dict[str, Tensor]
    best: dict[str, Tensor]
    average: dict[str, Tensor]


def save(folder: Path, checkpoint: Checkpoint, keep: int) -> None:
    """Write step_N, point `latest` at it, and remove all but the newest `keep`."""
    name = f"{_PREFIX}{checkpoint.position.step:09d}"
    tensors = {
        "weights": checkpoint.weights,
        "optimizer": checkpoint.optimizer,
        "best": checkpoint.best,
        "average": checkpoint.average,
        "random": _random_tensors(),
    }
    state = {"position": asdict(checkpoint.position), "settings": checkpoint.settings, "random": _random_numbers()}
    write_folder(folder / name, tensors, {"state": state})
    replace_file(folder / "latest", name.encode())
    for old in saved(folder)[:-keep]:
        shutil.rmtree(old, ignore_errors=True)


def saved(folder: Path) -> list[Path]:
    """The checkpoints in a folder, oldest first."""
    return sorted(path for path in folder.glob(f"{_PREFIX}*") if path.is_dir())


def load_newest(folder: Path) -> tuple[Checkpoint, list[FileError]] | None:
    """The newest checkpoint that is whole, and what is wrong with newer ones; None where nothing was saved yet."""
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
        if path.name != f"{_PREFIX}{position.step:09d}":
            raise FileError(path, f"holds step {position.step}", fix="Its name was changed.")
    except (KeyError, TypeError) as error:
        raise FileError(path / "state.json", f"is incomplete ({error})") from error
    return Checkpoint(
        position,
        settings,
        found.tensors("weights"),
        found.tensors("optimizer"),
        found.tensors("best"),
        found.tensors("average"),
    )


def restore_random(path: Path) -> None:
    """All random states as they were at a save."""
    found = Folder(path)
    tensors, numbers = found.tensors("random"), found.document("state")["random"]
    torch.set_rng_state(tensors["torch"])
    if torch.cuda.is_available() and "cuda" in tensors:
        torch.cuda.set_rng_state(tensors["cuda"])
    version, internal, gauss = numbers["python"]
    random.setstate((version, tuple(internal), gauss))
    kind, position, has_gauss, cached = numbers["numpy"]
    np.random.set_state((kind, tensors["numpy"].numpy().astype(np.uint32), position, has_gauss, cached))  # noqa: NPY002


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
