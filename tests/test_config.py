"""Configurations: texts and settings that are hostile or impossible end in a `ConfigError` that names the place, at once."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest
import torch

from calm_pde.bench.runs.suite import load_suite
from calm_pde.config import Config, Seed, yaml_mapping, yaml_value
from calm_pde.data.generate import generate
from calm_pde.errors import ConfigError, InputError
from calm_pde.solvers import PROBLEMS
from calm_pde.train.config import load_recipe, model_changes

LAUGHS = "a0: &a0 {x: 1}\n" + "".join(f"a{n}: &a{n} {{x: *a{n - 1}, y: *a{n - 1}}}\n" for n in range(1, 28))
TEXTS = {
    "billion laughs": (LAUGHS.encode(), r"line \d+, column \d+.*\n?.*Repeat less by aliases|more than 100,000 entries"),
    "merged laughs": (LAUGHS.replace("x: *", "<<: *").encode(), "more than 100,000 entries"),
    "deep list": (b"data: " + b"[" * 5000 + b"]" * 5000, "more than 64 levels of nesting"),
    "deep mapping": (b"data: " + b"{a: " * 5000 + b"1" + b"}" * 5000, "more than 64 levels of nesting"),
    "itself": (b"data: &a {file: *a}", "alias inside of what it stands for"),
    "itself in a list": (b"data: &a [1, [*a]]", "alias inside of what it stands for"),
    "not UTF-8": (b"data: {file: \xff\xfe}", "byte 13 is not UTF-8.*Save the file as UTF-8"),
    "no such day": (b"data: {file: 2001-99-99}", r"cannot be read \(month must be in 1\.\.12\).*put it in quotes"),
    "long integer": (b"train: {epochs: " + b"9" * 5000 + b"}", r"cannot be read \(Exceeds the limit"),
    "odd tag": (b"train: !!bool maybe", "cannot be read"),
    "no anchor": (b"train: *nowhere", "undefined alias"),
    "negative seed": (b"data: {file: a.h5}\ntrain: {seed: -1}", "train: seed: .*greater than or equal to 0, got -1"),
    "long seed": (
        b"data: {file: a.h5}\ntrain: {seed: 12345678901234567890123}",
        "train: seed: .*less than 9223372036854775808",
    ),
    "seed of data": (b"data: {file: a.h5, generate: {kind: burgers, samples: 3, seed: -1}}", "data: generate: seed: "),
    "infinite rate": (b"data: {file: a.h5}\ntrain: {learning_rate: .inf}", "learning_rate: .*finite number, got inf"),
    "rate beyond": (b"data: {file: a.h5}\ntrain: {learning_rate: 1e999}", "learning_rate: .*finite number, got inf"),
    "no number": (b"data: {file: a.h5}\ntrain: {weight_decay: .nan}", "weight_decay: "),
}


@pytest.mark.parametrize("name", TEXTS)
def test_hostile_and_impossible_recipes_are_refused_at_once(tmp_path: Path, name: str) -> None:
    content, message = TEXTS[name]
    path = tmp_path / "my.yaml"
    path.write_bytes(content)
    begun = time.perf_counter()
    with pytest.raises(ConfigError, match=message) as caught:
        load_recipe(str(path))
    assert time.perf_counter() - begun < 2
    assert str(path) in str(caught.value)
    assert len(str(caught.value)) < 2000


def test_a_range_is_no_number_to_base_sixty() -> None:
    """YAML 1.1 reads 15:45 as 945."""
    assert yaml_value("[15:45, 1e-4:1e-2, 0.5:2.5, 15, 2.5, 1e-3]", "my.yaml") == [
        "15:45",
        "1e-4:1e-2",
        "0.5:2.5",
        15,
        2.5,
        1e-3,
    ]


def test_a_yaml_error_tells_line_and_column() -> None:
    with pytest.raises(ConfigError, match=r'"my\.yaml", line 2, column 7'):
        yaml_mapping("a: 1\nday:  2001-99-99", "my.yaml", "a")


def test_aliases_within_reason_are_read() -> None:
    found = yaml_value("a: &a {x: [1, 2]}\nb: {<<: *a, y: 3}\nc: [*a, *a]", "here")
    assert found == {"a": {"x": [1, 2]}, "b": {"x": [1, 2], "y": 3}, "c": [{"x": [1, 2]}] * 2}


def test_suites_and_the_command_line_are_read_alike(tmp_path: Path) -> None:
    path = tmp_path / "suite.yaml"
    for content, message in (
        (b"\xff", "not UTF-8"),
        (b"seeds: [-1]\ndata: {a: {problem: burgers_1d}}\nmodels: {calm: {}}", "seeds: 0: .*got -1"),
    ):
        path.write_bytes(content)
        with pytest.raises(ConfigError, match=message):
            load_suite(str(path))
    with pytest.raises(ConfigError, match=r"--model\.width: not YAML"):
        model_changes(["r", "--model.width", "["])


def test_every_seed_that_passes_is_taken_by_the_generators() -> None:
    class Draw(Config):
        seed: Seed = 0

    for seed in (0, 2**63 - 1):
        assert Draw(seed=seed).seed == seed
        torch.Generator().manual_seed(seed)
        np.random.default_rng([seed, 1])
    for seed in (-1, 2**63, 10**5000):
        with pytest.raises(ConfigError, match="seed: "):
            Draw(seed=seed)


def test_generate_refuses_seeds_that_are_none(tmp_path: Path) -> None:
    for seed in (-1, 10**22):
        with pytest.raises(InputError, match="seed: expected 0 ≤ seed < 2⁶³"):
            generate(PROBLEMS["burgers"](), tmp_path / "a.h5", samples=1, seed=seed)
