"""The table of a search: every model with its validation errors, what was chosen, and which settings have these names."""

from __future__ import annotations

import csv
import io
import math

from calm_pde.bench.runs.phases import Searched
from calm_pde.bench.shown.page import page
from calm_pde.bench.shown.search_table import cells, comma_separated, markdown
from calm_pde.bench.shown.table import Row
from calm_pde.bench.shown.table import comma_separated as runs
from calm_pde.bench.shown.table import markdown as whole
from tests.bench.campaigns import SEARCH, result, suite
from tests.bench.shown.test_page import read
from tests.bench.shown.test_table import HOSTILE, cells_of

CHOSEN = suite(**SEARCH)
SETTINGS = SEARCH["search"]["settings"]


def searched(model: str, **changes) -> Searched:
    known = {
        "title": model.capitalize(),
        "settings": SETTINGS,
        "length": "2 steps",
        "errors": {"slow": 0.25, "fast": 0.125},
        "own": 0.5,
        "place": 1,
        "goes_on": True,
        "choice": "fast",
    }
    return Searched(model=model, **(known | changes))


FOUND = [
    searched("first"),
    searched("second", place=2, errors={"slow": math.inf, "fast": None}, choice=None),
    searched("third", place=3, errors={}, goes_on=False, choice=None),
    searched("mine", place=None, settings={"slow": {}}, errors={"slow": math.inf}, choice="own"),
    searched("fixed", own=None, place=None, settings={}, errors={}, goes_on=False, choice=None),
]


def test_every_model_stands_there_with_what_it_was_searched_with():
    head, lines = cells(CHOSEN, FOUND)
    assert head == ["model", "own", "place", "slow", "fast", "settled on"]
    assert [[text for text, _ in line] for line in lines] == [
        ["First", "0.5000", "1", "0.2500", "0.1250", "fast"],
        ["Second", "0.5000", "2", "failed", "not run yet", "–"],
        ["Third", "0.5000", "3", "–", "–", "not searched"],
        ["Mine", "0.5000", "–", "failed", "–", "own, all failed"],
        ["Fixed", "not run yet", "–", "–", "–", "not searched"],
    ]
    assert [[text for text, best in line if best] for line in lines] == [["0.1250"], [], [], [], []]


def test_without_ranks_there_are_no_places():
    open_to_all = suite(**(SEARCH | {"search": SEARCH["search"] | {"strongest": None}}))
    head, lines = cells(open_to_all, [searched("first", own=None, place=None)])
    assert head == ["model", "slow", "fast", "settled on"]
    assert [text for text, _ in lines[0]] == ["First", "0.2500", "0.1250", "fast"]


def test_the_notes_say_what_the_names_are():
    text = "\n".join(markdown(CHOSEN, FOUND))
    assert "| First | 0.5000 | 1 | 0.2500 | **0.1250** | fast |" in text
    assert "Runs of 2 steps, seed 3; they never see the test split." in text
    assert "Settings of First, Second, Third: slow: learning\\_rate 0.001; fast: learning\\_rate 0.003, optimizer muon." in text
    assert "Settings of Mine: slow: those of the model." in text
    assert "\nSettings: slow:" in "\n".join(markdown(CHOSEN, FOUND[:2]))
    assert markdown(CHOSEN, []) == []


def test_all_comes_back_from_the_csv():
    lines = list(csv.DictReader(io.StringIO(comma_separated({"sample": FOUND}))))
    kept = [(line["model"], line["setting"], line["validation"], line["chosen"]) for line in lines]
    assert kept == [
        ("first", "own", "0.5", "0"),
        ("first", "slow", "0.25", "0"),
        ("first", "fast", "0.125", "1"),
        ("second", "own", "0.5", "0"),
        ("second", "slow", "inf", "0"),
        ("second", "fast", "", "0"),
        ("third", "own", "0.5", "0"),
        ("mine", "own", "0.5", "1"),
        ("mine", "slow", "inf", "0"),
    ]


def row(model: str, settings: str) -> Row:
    return Row(model, model.capitalize(), results=[result(model=model, setting=settings)], settings=settings)


def test_it_stands_under_the_table_of_the_runs():
    """Which has the settings of every row behind its name; nothing of all this stands there without a search."""
    table = {"sample": [row("first", "fast"), row("third", "own, one seed")]}
    text = whole(CHOSEN, table, {"sample": FOUND})
    lines = cells_of(text)
    assert [line[1].strip() for line in lines[:3]] == ["settings", "fast", "own, one seed"]
    assert lines[3][3:] == ["slow", "fast", "settled on "]
    assert "- searched: ours, and on each data set the 2 rivals with the smallest validation error" in text
    told = list(csv.DictReader(io.StringIO(runs(table))))
    assert [(line["setting"], line["validation"]) for line in told] == [("fast", "0.13"), ("own, one seed", "0.13")]
    plain = {"sample": [row("first", "")]}
    for found in (whole(suite(), plain), page(suite(), plain), runs(plain)):
        assert "setting" not in found
        assert "Search" not in found


def test_the_page_has_it_too_and_names_are_text():
    table = {"sample": [row("first", HOSTILE)]}
    hostile = searched("first", title=HOSTILE, settings={HOSTILE: {}}, errors={HOSTILE: 0.0625}, choice=HOSTILE)
    found = read(page(CHOSEN, table, {"sample": [hostile]}))
    assert {tag for tag, _ in found.tags}.isdisjoint({"script", "a", "img"})
    assert found.texts.count(HOSTILE) >= 4
    assert "0.0625" in found.texts
    text = whole(CHOSEN, table, {"sample": [hostile]})
    assert "<script" not in text.replace("\\<", "")
