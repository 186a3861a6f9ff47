"""Which epochs belong to which stage of a model, and what a stage freezes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

from calm_pde.errors import ConfigError
from calm_pde.models import Model
from calm_pde.models.contract import Stage


class Span(NamedTuple):
    """Epochs begin … end − 1, with the learning-rate schedule of their own; without a stage the whole model learns."""

    begin: int
    end: int
    stage: Stage | None = None

    @property
    def epochs(self) -> int:
        return self.end - self.begin

    @property
    def frames(self) -> int | None:
        """Of the windows that a stage has of its own, beside a loss of its own; None where those of the training count."""
        return None if self.stage is None else self.stage.frames


def spans(stages: Sequence[Stage], epochs: int, shares: Sequence[float]) -> tuple[Span, ...]:
    """The epochs split among the stages by shares, equal ones where there are none; one span where there are no stages."""
    if len(shares) not in (0, len(stages)):
        named = ", ".join(stage.name for stage in stages)
        wanted = f"{len(stages)} shares, for {named}" if stages else "none, since this model is trained as a whole"
        raise ConfigError(f"train.stages: expected {wanted}, got {len(shares)}: {tuple(shares)}.")
    if not stages:
        return (Span(0, epochs),)
    shares = shares or [1.0] * len(stages)
    borders = [0, *(round(epochs * part / sum(shares)) for part in accumulate(shares))]
    found = tuple(Span(begin, end, stage) for (begin, end), stage in zip(pairwise(borders), stages, strict=True))
    for span, stage in zip(found, stages, strict=True):
        if span.epochs < 1:
            raise ConfigError(
                f"train.epochs: {epochs} leave none for the stage {stage.name!r}. Train longer, or give it a larger share "
                "in train.stages."
            )
    return found


def freeze(model: Model, stage: Stage | None) -> None:
    """What learns in a stage gets gradients, all else none; those of the stage before are gone."""
    if stage is None:
        return
    model.zero_grad(set_to_none=True)
    model.requires_grad_(False)
    model.part(stage.name).requires_grad_(True)
