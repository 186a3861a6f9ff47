"""The phases of a campaign with a search: models as they stand, searches of the strongest, runs with what was chosen."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from calm_pde.bench.measured.result import Failure, Outcome, Result
from calm_pde.bench.runs.campaign import Campaign
from calm_pde.bench.runs.suite import OWN, Search, Settings, Suite
from calm_pde.bench.runs.trials import Trial, Variant, pairs, refuse_twins, searching, settled_on, trial, with_own_settings
from calm_pde.errors import ConfigError

Pair = tuple[str, str]
"""A data set and a model."""


@dataclass(frozen=True)
class Searched:
    """How a model was searched on a data set; a validation error is None before its run, and infinite where that failed."""

    model: str
    title: str
    settings: Mapping[str, Settings]
    """Those that it is searched with; none where it never is."""
    length: str
    """Of each run of its search, in words."""
    errors: Mapping[str, float | None]
    own: float | None
    """With its own settings, where the strongest are told by that."""
    place: int | None
    """Among its rivals by that error, from 1."""
    goes_on: bool | None
    """None as long as its place is not known."""
    choice: str | None
    """The settings that it is compared with, by name; None where they are not known yet, or it was not searched."""


class Phases:
    """What there is to run, as far as the results of the phases before tell: `read` looks at them anew.

    Args:
        steps: of every run, instead of minutes or epochs.
    """

    def __init__(self, suite: Suite, search: Search, campaign: Campaign, steps: int | None = None) -> None:
        self.suite, self.search, self.campaign, self.steps = suite, search, campaign, steps
        self.pairs = list(pairs(suite))
        first = suite.seeds[0]
        self._own = {pair: self._trial(pair, first, with_own_settings()) for pair in self.pairs if search.strongest}
        self._tried = {
            pair: [self._trial(pair, first, searching(name, changes)) for name, changes in self.settings(pair).items()]
            for pair in self.pairs
            if suite.models[pair[1]].search.wanted
        }
        self._known: dict[tuple[Pair, str], list[Trial]] = {}
        tried = [one for several in self._tried.values() for one in several]
        refuse_twins(suite, [*self._own.values(), *tried, *(one for pair in self.pairs for one in self._runs(pair, OWN))])
        self._refuse_unlike()
        self.found: dict[str, Outcome | None] = {}
        self.read()

    def read(self) -> None:
        """What the runs of all phases have found by now."""
        early = [*self._own.values(), *(one for several in self._tried.values() for one in several)]
        self.found = {one.name: self.campaign.of(one) for one in early}
        for one in self.chosen_runs():
            found = self.campaign.of(one)
            of_now = not isinstance(found, Result) or found.setting == one.setting  # others are refused when it is their turn
            self.found[one.name] = found if of_now else None

    def settings(self, pair: Pair) -> dict[str, Settings]:
        """What is searched: of the model, else of the data set, else of the suite."""
        data, model = pair
        own = self.suite.models[model].search.settings or self.suite.data[data].search.settings
        return own or self.search.settings

    def own_runs(self) -> list[Trial]:
        """Of all models with their own settings, where the strongest are to be told."""
        return list(self._own.values())

    def search_runs(self) -> list[Trial]:
        """Of all models that are known to be searched."""
        return [one for pair, several in self._tried.items() if self.goes_on(pair) for one in several]

    def chosen_runs(self) -> list[Trial]:
        """Of all models whose settings are chosen, with all seeds."""
        choices = ((pair, self.choice(pair)) for pair in self.pairs)
        return [one for pair, choice in choices if choice is not None for one in self._runs(pair, choice)]

    def known(self) -> list[Trial]:
        """The runs of all phases, as far as they are known."""
        return [*self.own_runs(), *self.search_runs(), *self.chosen_runs()]

    def shown(self) -> list[Trial]:
        """The runs that the table is of: with what was chosen, or, of a model that was not searched, the one of its own."""
        return [one for pair in self.pairs for one in self._shown(pair)]

    def ranking(self, data: str) -> list[str] | None:
        """The rivals, the smallest validation error first; None before all have run."""
        errors = {model: self._error(self._own[data, model]) for model in self._rivals(data)}
        known = {model: error for model, error in errors.items() if error is not None}
        return sorted(known, key=lambda model: known[model]) if len(known) == len(errors) else None

    def goes_on(self, pair: Pair) -> bool | None:
        """Whether a model is searched on a data set; None as long as its place is not known."""
        data, model = pair
        if pair not in self._tried:
            return False
        if self.suite.models[model].ours or self.search.strongest is None:
            return True
        ranked = self.ranking(data)
        return None if ranked is None else model in ranked[: self.search.strongest]

    def choice(self, pair: Pair) -> str | None:
        """The settings with the smallest validation error, and its own where the whole search failed; None as long as that is
        not known, and of models of which the run with their own settings is all."""
        if pair not in self._tried and not self._own:
            return OWN
        if not self.goes_on(pair):
            return None
        errors = self._errors(pair)
        known = {name: error for name, error in errors.items() if error is not None}
        if len(known) < len(errors):
            return None
        best = min(known, key=lambda name: known[name])
        return best if math.isfinite(known[best]) else OWN

    def label(self, pair: Pair) -> str:
        """What the table says of a model's settings."""
        goes_on, choice = self.goes_on(pair), self.choice(pair)
        if goes_on:
            return {None: "not chosen yet", OWN: f"{OWN}, the whole search failed"}.get(choice, choice or "")
        if not self._own:
            return f"{OWN}, not searched"
        return f"{OWN}, one seed" if goes_on is False else f"{OWN}, one seed; not ranked yet"

    def searches(self) -> dict[str, list[Searched]]:
        """By data set, in the suite's order."""
        table: dict[str, list[Searched]] = {data: [] for data in self.suite.data}
        for pair in self.pairs:
            data, model = pair
            ranked = self.ranking(data) if self._own else None
            goes_on = self.goes_on(pair)
            table[data].append(
                Searched(
                    model=model,
                    title=self._runs(pair, OWN)[0].title,
                    settings=self.settings(pair) if pair in self._tried else {},
                    length=self._length(),
                    errors=self._errors(pair) if goes_on else {},
                    own=self._error(self._own[pair]) if self._own else None,
                    place=ranked.index(model) + 1 if ranked is not None and model in ranked else None,
                    goes_on=goes_on,
                    choice=self.choice(pair) if goes_on else None,
                )
            )
        return table

    def stands(self, one: Trial) -> bool:
        """Whether a failure is final: what was chosen by it has begun, and another result would choose anew."""
        if not isinstance(self.campaign.of(one), Failure):
            return False
        pair = one.data, one.model
        if not one.tested:
            return any(self.campaign.begun(later) for later in self._runs(pair, OWN))
        own = self._own.get(pair)
        if own is None or own.name != one.name:
            return False
        rivals = self._rivals(one.data)
        searched = (later for model in rivals for later in self._tried[one.data, model])
        return one.model in rivals and any(self.campaign.begun(later) for later in searched)

    def waiting(self) -> list[str]:
        """What keeps the search of a data set from going on, in words."""
        told = []
        for data in self.suite.data if self._own else ():
            left = [model for model in self._rivals(data) if self._error(self._own[data, model]) is None]
            if left:
                told.append(f"{data}: the strongest are known when these have run with their own settings: {', '.join(left)}")
        return told

    def _length(self) -> str:
        steps = self.steps or self.search.steps
        return f"{steps} steps" if steps else f"{self.search.minutes:g} min"

    def _rivals(self, data: str) -> list[str]:
        """The models of which `strongest` takes the best."""
        return [model for where, model in self._tried if where == data and not self.suite.models[model].ours]

    def _error(self, one: Trial) -> float | None:
        found = self.found.get(one.name)
        if found is None:
            return None
        return math.inf if isinstance(found, Failure) or math.isnan(found.validation) else found.validation

    def _errors(self, pair: Pair) -> dict[str, float | None]:
        return {one.setting: self._error(one) for one in self._tried[pair]}

    def _shown(self, pair: Pair) -> Sequence[Trial]:
        if self._own and not self.goes_on(pair):
            return [self._own[pair]]
        return self._runs(pair, self.choice(pair) or OWN)

    def _runs(self, pair: Pair, choice: str) -> list[Trial]:
        """With all seeds; made once."""
        if (pair, choice) not in self._known:
            variant = settled_on(choice, {} if choice == OWN else self.settings(pair)[choice])
            self._known[pair, choice] = [self._trial(pair, seed, variant) for seed in self.suite.seeds]
        return self._known[pair, choice]

    def _trial(self, pair: Pair, seed: int, variant: Variant) -> Trial:
        return trial(self.suite, *pair, seed, self.campaign.out, steps=self.steps, variant=variant)

    def _refuse_unlike(self) -> None:
        """Validation errors that are compared have one definition."""
        for several in self._tried.values():
            for one in several:
                if not one.recipe.train.validation:
                    raise ConfigError(
                        f"suite {self.suite.name}: models: {one.model} on {one.data}: train.validation: expected 1, got 0. "
                        "A search chooses by the validation error; leave the model out of it with search: false."
                    )
        for data in self.suite.data if self._own else ():
            ways = {model: self._own[data, model].recipe.train.reduction for model in self._rivals(data)}
            if len(set(ways.values())) > 1:
                listed = ", ".join(f"{model} {way}" for model, way in ways.items())
                raise ConfigError(
                    f"suite {self.suite.name}: data: {data}: train.reduction: expected one of all models, by whose validation "
                    f"error the strongest are told, got {listed}. Say it in `train` of the data set."
                )
