"""The table of a search: the validation error of each model with each of the settings; as Markdown and as CSV."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence

from calm_pde.bench.runs.phases import Searched
from calm_pde.bench.runs.suite import OWN, Settings, Suite
from calm_pde.bench.shown.words import plain

TITLE = "Search"
_PLACE = "place"


def facts(suite: Suite) -> list[str]:
    """What stands over every number of a suite with a search."""
    if suite.search is None:
        return []
    words = ["settings of training searched, and chosen by validation error"]
    if suite.search.strongest:
        words.append(
            f"searched: ours, and on each data set the {suite.search.strongest} rivals with the smallest validation error"
        )
    return words


def cells(suite: Suite, found: Sequence[Searched]) -> tuple[list[str], list[list[tuple[str, bool]]]]:
    """The head of the table of a data set, and a line per model: texts, and whether one is the smallest of its search."""
    ranked = suite.search is not None and suite.search.strongest is not None
    names = list(dict.fromkeys(name for one in found for name in one.settings))
    head = ["model", *([OWN, _PLACE] if ranked else []), *names, "settled on"]
    lines = []
    for one in found:
        own = [(_error(one.own), False), (str(one.place or "–"), False)] if ranked else []
        tried = [(_error(one.errors[name]) if name in one.errors else "–", name == one.choice) for name in names]
        lines.append([(one.title, False), *own, *tried, (_outcome(one), False)])
    return head, lines


def markdown(suite: Suite, found: Sequence[Searched]) -> list[str]:
    """Of one data set; the smallest validation error of each model is bold."""
    if not found:
        return []
    head, lines = cells(suite, found)
    told = [f"### {TITLE}", "", f"| {' | '.join(map(plain, head))} |", "|" + "---|" * len(head)]
    for line in lines:
        told.append(f"| {' | '.join(f'**{plain(text)}**' if best else plain(text) for text, best in line)} |")
    return [*told, "", *(line for note in notes(suite, found) for line in (plain(note), "")), ""]


def notes(suite: Suite, found: Sequence[Searched]) -> list[str]:
    """What the numbers are, and what the settings are that have these names."""
    seed = suite.seeds[0]
    words = [
        "Validation error: the smallest of each run, by which its weights are kept; the smallest of each model chose its "
        f"settings. Runs of {found[0].length}, seed {seed}; they never see the test split."
    ]
    if any(one.own is not None or one.place for one in found):
        words.append(f"{OWN}: a whole run with the model's own settings, seed {seed}; {_PLACE}: among rivals, by it.")
    return words + [f"{who}: {_spelled(settings)}." for who, settings in _searched_with(found)]


def comma_separated(searches: Mapping[str, Sequence[Searched]]) -> str:
    """A line per run with its validation error, unrounded: `inf` where it failed, nothing before it has run."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["data", "model", "title", "setting", "validation", _PLACE, "chosen", "changes"])
    for data, found in searches.items():
        for one in found:
            start = [data, one.model, one.title]
            if one.own is not None or one.place is not None:
                writer.writerow([*start, OWN, one.own, one.place, int(one.choice == OWN), ""])
            for name, error in one.errors.items():
                changes = _changes(one.settings[name])
                writer.writerow([*start, name, error, one.place, int(one.choice == name), changes])
    return out.getvalue()


def _searched_with(found: Sequence[Searched]) -> list[tuple[str, Mapping[str, Settings]]]:
    """Settings with the models that they are of; all alike are told once."""
    groups: list[tuple[list[str], Mapping[str, Settings]]] = []
    for one in found:
        same = next((titles for titles, settings in groups if settings == one.settings), None)
        if same is not None:
            same.append(one.title)
        elif one.settings:
            groups.append(([one.title], one.settings))
    return [("Settings" if len(groups) == 1 else f"Settings of {', '.join(titles)}", known) for titles, known in groups]


def _spelled(settings: Mapping[str, Settings]) -> str:
    return "; ".join(f"{name}: {_changes(changes) or 'those of the model'}" for name, changes in settings.items())


def _changes(changes: Settings) -> str:
    return ", ".join(f"{name} {value}" for name, value in changes.items())


def _outcome(one: Searched) -> str:
    if not one.goes_on:
        return "not searched" if one.goes_on is False else "–"
    return {None: "–", OWN: f"{OWN}, all failed"}.get(one.choice, one.choice or "")


def _error(value: float | None) -> str:
    if value is None:
        return "not run yet"
    return f"{value:.4f}" if math.isfinite(value) else "failed"
