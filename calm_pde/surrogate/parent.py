"""A trained surrogate that another training goes on from: its architecture, its weights, and if wanted its statistics."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
import safetensors.torch

from calm_pde.data.statistics import Statistics
from calm_pde.errors import ConfigError
from calm_pde.models import Model
from calm_pde.records.description import Description
from calm_pde.surrogate.surrogate import Card, Surrogate, load_weights

KeptStatistics = Literal["old", "new"]
_OF_THE_DATA = ("dim", "in_channels", "out_channels", "periodic", "parameters", "signals", "features")
"""What a config says that the data say, and not its architecture."""
_FAR = 3.0  # of a deviation: how far data may be from the statistics that normalize them without a word


class Parent:
    """
    Args:
        path: a run folder, or a surrogate folder.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path, self.surrogate = Path(path), Surrogate.load(path)

    @property
    def architecture(self) -> dict[str, Any]:
        """As the `model` part of a recipe."""
        card = self.surrogate.card
        return {"kind": card.kind} | {name: value for name, value in card.model.items() if name not in _OF_THE_DATA}

    @property
    def by_point(self) -> bool:
        """Whether its features are normalized point by point."""
        known = self.surrogate.card.feature_statistics
        return known is not None and isinstance(known.mean[0], tuple)

    @property
    def digest(self) -> str:
        """SHA-256 of its weights."""
        weights = {name: value.detach().cpu().contiguous() for name, value in self.surrogate.model.state_dict().items()}
        return hashlib.sha256(safetensors.torch.save(weights)).hexdigest()

    @property
    def provenance(self) -> dict[str, Any]:
        """What is told of it in the folder of its child."""
        known = self.surrogate.card.provenance
        told = {"run": str(self.path), "weights": self.digest, "data": known.get("data")}
        return told | ({"parent": known["parent"]} if "parent" in known else {})

    def check(self, data: Description) -> None:
        """Refuse data that say other things than those it was trained on."""
        known = self.surrogate.description
        same = {
            "dimensions": (known.box.dim, data.box.dim),
            "fields": (known.field_names, data.field_names),
            "steady": (known.steady, data.steady),
            "periodic axes": (known.periodic, data.periodic),
        }
        if self.surrogate.takes_node_types:
            same["node types"] = (tuple(sorted(known.node_types)), tuple(sorted(data.node_types)))
        if known.steady:
            same["features"] = tuple(tuple(field.name for field in one.features) for one in (known, data))  # pyright: ignore
        for what, (old, new) in same.items():
            if old != new:
                raise ConfigError(f"parent: {self.path} was trained on {what} {old}, and these data have {new}. Train anew.")

    def doubts(self, card: Card, kept: KeptStatistics) -> Iterator[str]:
        """What differs from its data and may be meant, in words; `card` has the statistics of the new data."""
        known, data = self.surrogate.description, card.description
        if (known.box.lower, known.box.upper) != (data.box.lower, data.box.upper):
            yield (
                f"the box is {data.box.lower} to {data.box.upper}, and was {known.box.lower} to {known.box.upper}: lengths "
                "relative to it are what the weights know"
            )
        if not np.isclose(known.spacing, data.spacing, rtol=1e-6):
            yield f"a frame takes {data.spacing:g}, and took {known.spacing:g}: the weights know frames"
        old, new = self.surrogate.card.statistics, card.statistics
        for name, mean, std, told, spread in zip(new.names, new.mean, new.std, old.mean, old.std, strict=True):
            far = abs(mean - told) > _FAR * spread or not 1 / _FAR < std / spread < _FAR  # pyright: ignore
            if far and kept == "old":
                yield (
                    f"{name} is {mean:.3g} ± {std:.3g}, and was {told:.3g} ± {spread:.3g}, by which it is normalized; "
                    "parent.statistics=new (--statistics new) normalizes it by its own"
                )

    def card(self, card: Card, kept: KeptStatistics) -> Card:
        """The card of its child, with the statistics that are wanted; ranges are those of old and new data together."""
        told = card.provenance | {"parent": self.provenance | {"statistics": kept}}
        old = self.surrogate.card
        updated: dict[str, Any] = {"provenance": told}
        if kept == "old":
            updated["statistics"] = _joined(old.statistics, card.statistics)
            if old.feature_statistics is not None and card.feature_statistics is not None:
                updated["feature_statistics"] = _joined(old.feature_statistics, card.feature_statistics)
        return card.model_copy(update=updated)

    def give_weights(self, model: Model) -> None:
        """The weights of its child at the start; one that does not fit is refused by name."""
        load_weights(model, dict(self.surrogate.model.state_dict()), self.path)


def _joined(old: Statistics, new: Statistics) -> Statistics:
    """The mean and deviation of the old, and the range of both."""
    if old.names != new.names or np.shape(old.mean) != np.shape(new.mean):
        raise ConfigError(
            f"parent.statistics: the parent's are of {', '.join(old.names)} {np.shape(old.mean)}, and those of the new data of "
            f"{', '.join(new.names)} {np.shape(new.mean)}. Say new (--statistics new), or train anew."
        )
    lowest, highest = np.minimum(old.lowest, new.lowest), np.maximum(old.highest, new.highest)
    return old.model_copy(update={"lowest": tuple(lowest.tolist()), "highest": tuple(highest.tolist())})
