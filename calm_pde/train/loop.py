"""The one training loop."""

from __future__ import annotations

import datetime
import json
import math
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch

from calm_pde.config import differences
from calm_pde.data.augment import Augmentation
from calm_pde.data.dataset import Dataset
from calm_pde.data.statistics import statistics
from calm_pde.data.windows import Window, epoch_windows, grouped, whole_windows
from calm_pde.errors import ConfigError, TrainingError
from calm_pde.files.folders import make_folder, replace_file
from calm_pde.metrics import REDUCTIONS
from calm_pde.models import OURS
from calm_pde.models.size import check_memory, oversized
from calm_pde.origin import origin
from calm_pde.records.batch import Batch
from calm_pde.records.inputs import Frames
from calm_pde.surrogate.parent import Parent
from calm_pde.surrogate.surrogate import Surrogate, card_of, load_weights
from calm_pde.threads import threads
from calm_pde.train.checkpoint import Checkpoint, Position, checkpoint_path, load_newest, restore_random, save
from calm_pde.train.config import Recipe, TrainConfig, initial_model, model_config
from calm_pde.train.objective import Objective
from calm_pde.train.optimizers import Optimizers, optimizers_of
from calm_pde.train.processes import Processes
from calm_pde.train.queries import QueryRecord
from calm_pde.train.record import Record
from calm_pde.train.schedule import Schedule
from calm_pde.train.show import Show
from calm_pde.train.signals import StopSignals, deaf_children
from calm_pde.train.stages import freeze
from calm_pde.types import Tensor

_HARMLESS = {"workers", "save_every", "save_epochs", "keep", "check_memory", "log"}  # settings that change no number
PARENT = "parent"
"""Of the folder in a run that keeps what it was begun from."""


class Interrupted(TrainingError):
    """A signal asked to stop; the state is saved."""


class Trainer:
    """A run in a folder: `fit` trains to the end, from the newest checkpoint if there is one.

    Args:
        force: resume although data or settings differ from the checkpoint's.
        clock: by which the seconds of a training are counted.
    """

    def __init__(
        self,
        recipe: Recipe,
        run: str | Path,
        show: Show,
        *,
        force: bool = False,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.recipe, self.config, self.run, self.show, self.clock = recipe, recipe.train, Path(run), show, clock
        self.processes = Processes()
        make_folder(self.run)
        data = recipe.data
        options: dict[str, Any] = {"fields": data.fields, "frame_stride": data.frame_stride}
        if isinstance(data.conditions, tuple):
            options["conditions"] = data.conditions
        self.data = Dataset(data.file, "train", **options)
        self.held = Dataset(self.data.file, "validation", **options) if self.config.validation else None
        self.parent = self._parent()
        self.surrogate = self._surrogate()
        told = [name for names in self.surrogate.conditions.values() for name in names]
        self.augmentation = Augmentation(self.data.description, told) if self.config.augment == "symmetries" else None
        self.model = self.surrogate.model
        if self.config.precision == "float64":
            self.model.double()
        self.model.to(self.processes.device)
        if self.processes.size > 1 and self.model.config.abilities.batch_statistics:
            raise ConfigError(
                f"model: {self.surrogate.card.kind} learns by a statistic of the whole batch, which {self.processes.size} "
                "processes would each have of their share alone. Train it with one process."
            )
        if self.model.config.abilities.starts_by_data and self.parent is None:
            self.model.start_by(self.surrogate.translator.inputs(next(self._training_batches()), self.surrogate.dtype))
        if self.model.config.abilities.gathers and self.parent is None:
            self.model.gather(self._training_frames())
        self.schedule = Schedule(self.config, self.model.config, self.data.num_frames, self.data.even)
        self.objective = Objective(self.surrogate, self.config, self.schedule)
        self.position = Position()
        self.optimizer = self._optimizer()
        self.average = {} if self.config.average is None else self._weights()
        self.best: dict[str, Tensor] = {}
        self.queries = QueryRecord()
        self._signals = StopSignals()
        self._leaving: int | None = None
        self._begun = self.clock()
        self._resume(force)
        if not self.queries.epochs:
            self.queries.add(self.position.epoch, self._kept_weights())
        self.record = Record(self.run / "metrics.jsonl", self.position.step) if self.processes.first else None

    @property
    def num_steps(self) -> int:
        """Of the whole training."""
        return self.config.epochs * self.epoch_steps

    @property
    def epoch_steps(self) -> int:
        whole = math.ceil(len(self.data) * self.config.windows_per_trajectory / self.config.batch_size)
        return min(whole, self.config.batches_per_epoch or whole)

    @property
    def seconds(self) -> float:
        """Of the training so far."""
        return self.position.seconds + self.clock() - self._begun

    def fit(self) -> Path:
        """Train to the end; the folder of the surrogate that was best on the validation split."""
        with threads(self.config.threads):
            self.show.begin(self)
            self._begun = self.clock()
            if self.parent is not None and self.position.step == 0:
                self._begin_from(self.parent)
            with self._signals:
                while self.position.epoch < self.config.epochs:
                    self._epoch()
        self._export()
        self.show.end(self)
        self.processes.close()
        return self.run / "surrogate"

    def _begin_from(self, parent: Parent) -> None:
        """A copy for later starts; and the parent itself is kept as long as no epoch is better."""
        if self.processes.first:
            parent.surrogate.save(self.run / PARENT)
        if self.held is None or not self.schedule.selects(0):
            return
        error = self.validate()
        self.show.tell(f"validation error at the start: {error:.4f}")
        if error < self.position.best:
            self.position.best, self.position.best_epoch = error, 0
            self.best = self._kept_weights()
            self._export()

    def _epoch(self) -> None:
        position, config = self.position, self.config
        groups = self.groups(position.epoch)
        self.model.train()
        for batch, weight in self.batches(groups[position.batch :]):
            loss = self.step(batch, weight)
            position.losses += [loss] if math.isfinite(loss) else []
            position.batch += 1
            position.step += 1
            if self.record is not None:
                told = self.schedule.told(position.epoch)
                self.record.add(step=position.step, epoch=position.epoch, loss=loss, learning_rate=self.optimizer.rate, **told)
            self.show.step(self, loss)
            self._agree_to_leave()
            over = position.batch == len(groups)
            if not over and (self._leaving is not None or (config.save_every and position.step % config.save_every == 0)):
                self._save()
                self._leave_if_asked()
        losses = position.losses
        position.epoch, position.batch, position.losses = position.epoch + 1, 0, []
        self.queries.add(position.epoch, self._kept_weights())
        self._finish_epoch(losses)

    def _finish_epoch(self, losses: list[float]) -> None:
        position, config = self.position, self.config
        error = None
        due = position.epoch % config.validate_every == 0 or position.epoch == config.epochs
        if self.held is not None and due and self.schedule.selects(position.epoch - 1):
            error = self.validate()
            if error < position.best:
                position.best, position.best_epoch = error, position.epoch
                self.best = self._kept_weights()
                self._export()
        if self.record is not None:
            mean = sum(losses) / len(losses) if losses else None
            self.record.add(step=position.step, epoch=position.epoch, mean_loss=mean, validation=error, best=position.best)
        self.show.epoch(self, losses, error)
        self._enter_stage()
        self._agree_to_leave()
        if self._leaving is not None or position.epoch % config.save_epochs == 0 or position.epoch == config.epochs:
            self._save()
        self._leave_if_asked()

    def start_at(self, epoch: int) -> None:
        """The start of an epoch as a training comes to it, but for the weights: what measures its steps goes there at once."""
        self.position.epoch, self.position.batch, self.position.step = epoch, 0, epoch * self.epoch_steps
        self.optimizer = self._optimizer()
        self.model.train()

    def step(self, batch: Batch, weight: float) -> float:
        """One optimizer step on this process's share of a batch; the loss of the whole batch."""
        position, config = self.position, self.config
        self.optimizer.set_rate(self.schedule.learning_rate(position.epoch, position.step, self.epoch_steps))
        self.optimizer.zero_grad()
        self._seed()
        offset = self._offset(batch.points.shape[-1])
        total = torch.zeros((), dtype=torch.float64)
        for part in batch.parts(config.accumulate):
            loss = self.objective.losses(part, position.epoch, offset).sum() * weight
            loss.backward()
            total += loss.detach().double().cpu()
        self.processes.sum_gradients(self.model.parameters())
        value = float(self.processes.sum(total.to(self.processes.device)))
        limit = config.gradient_clip or math.inf
        norm = float(torch.nn.utils.clip_grad_norm_(self.model.parameters(), limit))
        if not (math.isfinite(value) and math.isfinite(norm)):
            self._not_finite(batch, "loss" if not math.isfinite(value) else "gradient")
            return value
        self.optimizer.step()
        if config.average is not None:
            for name, weights in self.model.state_dict().items():
                self.average[name].lerp_(weights, 1 - config.average)
        return value

    def _optimizer(self) -> Optimizers:
        """A fresh one, of what learns in the stage at hand."""
        freeze(self.model, self.schedule.span(self.position.epoch).stage)
        config = self.config
        return optimizers_of(
            self.model, config.optimizer, config.learning_rate, config.weight_decay, config.betas, config.momentum
        )

    def _enter_stage(self) -> None:
        """At the border of two stages: the next builds on what the last one kept, and starts with an optimizer of its own."""
        begin, _, stage = self.schedule.span(self.position.epoch)
        if stage is None or self.position.epoch != begin:
            return
        self.model.load_state_dict(self._kept_weights())
        self.model.eval()
        self.model.prepare(stage.name, self._training_frames())
        self.average = {} if self.config.average is None else self._weights()
        self.optimizer = self._optimizer()

    def _training_frames(self) -> Iterator[Frames]:
        """All training trajectories, whole and in order; every process goes through all of them."""
        for batch in self._training_batches():
            yield self.surrogate.translator.frames(batch, self.surrogate.dtype)

    def _training_batches(self) -> Iterator[Batch]:
        for batch in self.data.batches(grouped(whole_windows(len(self.data), self.data.num_frames), self.config.batch_size)):
            yield self._finite(batch).to(self.processes.device)

    @torch.no_grad()
    def validate(self) -> float:
        """The mean relative L2 error on the validation split, whole trajectories, physical values, frames after the first.

        Frames whose truth is exactly zero are left out; a prediction that is not finite makes it infinite.
        """
        if self.held is None:
            raise ConfigError("train.validation: there is no validation split to validate on.")
        current = self._weights()
        self.model.load_state_dict(self._kept_weights())
        self.model.eval()
        measure = REDUCTIONS[self.config.reduction].errors
        frames = 1 if self.surrogate.task == "autoencoder" else self.held.num_frames
        windows = whole_windows(len(self.held), frames)[self.processes.rank :: self.processes.size]
        total = torch.zeros(2, dtype=torch.float64)
        for batch in self.held.batches(grouped(windows, self.config.batch_size)):
            batch = self._finite(batch).to(self.processes.device)
            predicted, given = self.surrogate.predicted(batch), self.surrogate.translator.known(batch)
            truth = batch.fields[:, -predicted.shape[1] :]
            if given is not None:  # is no error, and no part of the size that an error is relative to
                hidden = given[:, -predicted.shape[1] :]
                predicted, truth = predicted.masked_fill(hidden, 0.0), truth.masked_fill(hidden, 0.0)
            errors = measure(predicted, truth, batch.mask).flatten(1).nanmean(dim=1)
            known = errors[~errors.isnan()]
            total += torch.tensor([float(known.sum()), len(known)], dtype=torch.float64)
        self.model.load_state_dict(current)
        total = self.processes.sum(total.to(self.processes.device))
        return float(total[0] / total[1])

    def groups(self, epoch: int) -> list[list[Window]]:
        """The batches of an epoch, a function of seed and epoch alone."""
        config = self.config
        windows = epoch_windows(
            len(self.data),
            self.data.num_frames,
            self.schedule.length(epoch),
            seed=config.seed,
            epoch=epoch,
            per_trajectory=config.windows_per_trajectory,
            **self.schedule.starts(epoch),
        )
        return grouped(windows, config.batch_size)[: config.batches_per_epoch]

    def batches(self, groups: list[list[Window]]) -> Iterator[tuple[Batch, float]]:
        """This process's share of each batch of the epoch at hand, with the weight of each of its windows in the whole."""
        rank, size = self.processes.rank, self.processes.size
        mine = [group[rank::size] or group[:1] for group in groups]
        with deaf_children() if self.config.workers else nullcontext():
            batches = self.data.batches(mine, self.config.workers)
        for group, batch in zip(groups, batches, strict=True):
            idle = len(group) <= rank  # fewer windows than processes: this one computes along, and it counts for nothing
            batch = self._finite(batch)
            if self.augmentation is not None:
                batch = self.augmentation.moved(batch, self.config.seed, self.position.epoch)
            yield batch.to(self.processes.device), 0.0 if idle else 1 / len(group)

    def _finite(self, batch: Batch) -> Batch:
        if not bool(torch.isfinite(batch.fields).all()):
            raise TrainingError(
                f"{self.data.file.path}: trajectories {batch.samples.tolist()} hold numbers that are not finite. "
                "Run `calm check` on the file."
            )
        return batch

    def _seed(self) -> None:
        """What a step draws (dropout) is a function of its place and the process alone, as everything else it does."""
        place = [self.config.seed, self.position.epoch, self.position.batch, 2, self.processes.rank]
        torch.manual_seed(int(np.random.SeedSequence(place).generate_state(1, np.uint64)[0] >> 1))

    def _offset(self, dim: int) -> np.ndarray | None:
        reach = self.config.random_offset
        if not reach:
            return None
        draw = np.random.default_rng([self.config.seed, self.position.epoch, self.position.batch, 1])
        return draw.uniform(-reach, reach, size=dim)

    def _not_finite(self, batch: Batch, what: str) -> None:
        place = (
            f"epoch {self.position.epoch}, step {self.position.step}, trajectories {batch.samples.tolist()} "
            f"from frames {batch.starts.tolist()} of {self.data.file.path}"
        )
        self.optimizer.zero_grad()
        if self.config.on_nan == "skip":
            self.position.skipped += 1
            self.show.warn(f"the {what} is not finite at {place}; the step is skipped")
            return
        self._save()
        raise TrainingError(
            f"the {what} is not finite at {place}. The state before this step is saved. "
            "Lower train.learning_rate, set train.gradient_clip, or train.on_nan=skip."
        )

    def _parent(self) -> Parent | None:
        """What the training goes on from, as it was when it began."""
        wanted, kept = self.recipe.parent, self.run / PARENT
        if wanted is None:
            return None
        parent = Parent(kept if kept.exists() else wanted.run)
        parent.path = wanted.run
        parent.check(self.data.description)
        return parent

    def _surrogate(self) -> Surrogate:
        recipe = self.recipe
        config = model_config(recipe, self.data)
        if self.config.check_memory:
            check_memory(config)
        with threads(self.config.threads):
            made = origin()
        provenance = {
            "recipe": recipe.model_dump(mode="json"),
            "data": self.data.file.fingerprint,
            "seed": self.config.seed,
        } | made
        kind = recipe.model.get("kind", OURS)
        found = statistics(self.data, recipe.data.normalize_features == "point", config.zero_stays)
        card = card_of(kind, config, self.data, found, provenance)
        model = initial_model(config, self.data, self.config.seed)
        too_large = oversized(model, int(self.data.file.num_points[self.data.indices].min()))
        if too_large:
            self.show.warn(too_large)
        if self.parent is not None and recipe.parent is not None:
            for doubt in self.parent.doubts(card, recipe.parent.statistics):
                self.show.warn(f"parent: {doubt}")
            self.show.tell(f"from {self.parent.path}, with {recipe.parent.statistics} statistics")
            card = self.parent.card(card, recipe.parent.statistics)
            self.parent.give_weights(model)
        return Surrogate(model, card)

    def _settings(self) -> dict[str, Any]:
        """What a resume must find as it was."""
        train = self.config.model_dump(mode="json", exclude=_HARMLESS)
        data = self.recipe.data.model_dump(include={"frame_stride", "normalize_features"}) | {"fields": list(self.data.fields)}
        if isinstance(self.recipe.data.conditions, tuple):
            data["conditions"] = sorted(self.recipe.data.conditions)
        found = {"data": data | {"fingerprint": self.data.file.fingerprint}, "model": self.surrogate.card.model, "train": train}
        told = self.surrogate.card.provenance.get("parent")
        return found if told is None else found | {"parent": {name: told[name] for name in ("weights", "statistics")}}

    def _as_of_now(self, settings: dict[str, Any]) -> dict[str, Any]:
        """The settings of a checkpoint, with those that it did not know yet at what they are by default."""
        found = dict(settings)
        for name, config, harmless in (("train", TrainConfig, _HARMLESS), ("model", type(self.model.config), None)):
            with suppress(ConfigError):  # what is no longer known, or of another kind of model, is told of as it stands
                found[name] = config.model_validate(settings[name]).model_dump(mode="json", exclude=harmless)
        return found

    def _resume(self, force: bool) -> None:
        folder = self.run / "checkpoints"
        found = load_newest(folder)
        if found is None:
            if self.processes.first:
                resolved = self.recipe.model_dump(mode="json") | {"model": self.surrogate.card.model}
                replace_file(self.run / "config.json", json.dumps(resolved, indent=1).encode())
            return
        checkpoint, damaged = found
        for error in damaged:
            self.show.warn(f"{error} An older checkpoint is used.")
        changed = differences(self._as_of_now(checkpoint.settings), json.loads(json.dumps(self._settings())))
        if changed and not force:
            listed = "; ".join(f"{name}: {old!r} then, {new!r} now" for name, old, new in changed)
            raise ConfigError(
                f"{self.run}: this run was made with other settings ({listed}). "
                "Name another run, or say --resume force to go on with the new ones."
            )
        path, device = checkpoint_path(folder, checkpoint.position), self.processes.device
        self.best, self.position, self.queries = checkpoint.best, checkpoint.position, QueryRecord(checkpoint.queries)
        load_weights(self.model, checkpoint.weights, path / "weights.safetensors")
        self.optimizer = self._optimizer()
        self.optimizer.load_state(self.model, checkpoint.optimizer)
        average = checkpoint.average or self._weights()  # an average that starts now starts from these weights
        self.average = {} if self.config.average is None else {name: value.to(device) for name, value in average.items()}
        restore_random(path)
        self.show.resumed(self)

    def _count_time(self) -> None:
        self.position.seconds, self._begun = self.seconds, self.clock()

    def _weights(self) -> dict[str, Tensor]:
        return {name: value.detach().clone() for name, value in self.model.state_dict().items()}

    def _kept_weights(self) -> dict[str, Tensor]:
        """What is validated and kept: the average where there is one."""
        source = self.average if self.config.average is not None else self.model.state_dict()
        return {name: value.detach().clone() for name, value in source.items()}

    def _save(self) -> None:
        weights = self._weights()
        for name, value in weights.items():
            if value.is_floating_point() and not bool(torch.isfinite(value).all()):
                raise TrainingError(
                    f"the weights {name} are not finite at step {self.position.step}; they are not saved, and the checkpoint "
                    f"before is kept in {self.run}. Lower train.learning_rate or set train.gradient_clip, and --resume force."
                )
        self._count_time()
        if self.record is not None:
            self.record.sync()
            checkpoint = Checkpoint(
                self.position,
                self._settings(),
                weights,
                self.optimizer.state(self.model),
                self.best,
                self.average,
                self.queries.tensors,
            )
            save(self.run / "checkpoints", checkpoint, self.config.keep)
        self.processes.wait()

    def _export(self) -> None:
        """RUN/surrogate: the best weights so far; the last ones without validation."""
        if not self.processes.first:
            return
        weights = self.best or self._kept_weights()
        self._count_time()
        found = {"seconds": self.position.seconds, "date": f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d %H:%M} UTC"}
        if self.best:
            found |= {"validation": self.position.best, "epoch": self.position.best_epoch}
        card = self.surrogate.card.model_copy(update={"metrics": found})
        model = type(self.model.config).model_validate(card.model).build()
        kept = {name: value.cpu().float() if value.is_floating_point() else value.cpu() for name, value in weights.items()}
        model.load_state_dict(kept)
        Surrogate(model, card).save(self.run / "surrogate")

    def _agree_to_leave(self) -> None:
        """All processes leave at the same step, whichever of them was asked first."""
        asked = torch.tensor(float(self._signals.asked is not None), device=self.processes.device)
        if self.processes.sum(asked) > 0:
            self._leaving = self._signals.asked or signal.SIGTERM

    def _leave_if_asked(self) -> None:
        if self._leaving is not None:
            name = signal.Signals(self._leaving).name
            raise Interrupted(f"{name}: saved at step {self.position.step} in {self.run}. The same command goes on from there.")
