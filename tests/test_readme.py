"""The README's example runs as it is written, and its numbers are true."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

import calm_pde as cp
from calm_pde.cli import main
from calm_pde.data.readers import READERS
from calm_pde.solvers import PROBLEMS

README = (Path(__file__).parent.parent / "README.md").read_text()


def _examples() -> list[str]:
    return re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)


def test_the_ten_lines_run():
    scope: dict = {}
    exec(_examples()[0].replace("randn(8,", "randn(2,"), scope)  # a smaller batch: the same code in a quarter of the time
    assert scope["u"].shape == (2, 19, 4096, 1)
    assert scope["z"].shape == (2, 16, 128)
    assert scope["v"].shape == (2, 4, 100, 1)


def test_own_arrays_to_ready_to_train(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    scope: dict = {}
    exec(_examples()[1], scope)
    assert scope["batch"].fields.shape == (1, 11, 500, 1)
    (check,) = re.findall(r"^calm (check mine.h5)", README, flags=re.MULTILINE)
    main(check.split())
    assert "Ready to train." in capsys.readouterr().out
    np.savez("mine.npz", points=scope["points"], fields=scope["fields"], times=scope["times"])
    (convert,) = re.findall(r"^calm (convert arrays .*?)  +#", README, flags=re.MULTILINE)
    main([*convert.split(), "--overwrite"])
    assert (cp.DataFile("mine.h5").digests == scope["file"].digests).all()


def test_from_data_to_a_surrogate(tmp_path, monkeypatch, capsys):
    """The commands as they are written, with less of everything."""
    monkeypatch.chdir(tmp_path)
    (block,) = re.findall(r"## From data to a surrogate\n\n```\n(.*?)```", README, flags=re.DOTALL)
    less = {
        "generate": ["--samples", "10", "--frames", "4"],
        "train": ["--train.epochs", "1", "--model.encoder.channels", "[4, 4, 8]", "--model.decoder.channels", "[4, 4]"],
    }
    for line in block.splitlines():
        words = line.split("#")[0].split()[1:]
        main(words + less.get(words[0], []))
    shown = capsys.readouterr().out
    for word in (
        "10 trajectories",
        "the surrogate is in runs/ns/surrogate",
        "relative L2",
        "The prediction is in predicted.h5",
    ):
        assert word in shown
    scope: dict = {}
    exec(_examples()[2], scope)
    assert scope["u"].shape == (2, 1024, 1)
    main(["check", "predicted.h5"])


def test_the_kinds_are_true():
    (readers,) = re.findall(r"published files: (.*)", README)
    (problems,) = re.findall(r"our own solvers: (.*)", README)
    assert set(readers.split(", ")) == READERS.keys() - {"arrays", "vtk", "openfoam"}
    assert set(problems.split(", ")) == PROBLEMS.keys()


def test_the_table_of_presets_is_true():
    rows = re.findall(r"^\| `(\w+)` \|.*\| ([\d,]+) \|$", README, flags=re.MULTILINE)
    assert len(rows) == 7
    for name, count in rows:
        model = cp.CalmConfig.preset(name).build()
        assert sum(parameter.numel() for parameter in model.parameters()) == int(count.replace(",", ""))


def test_the_tree_is_true():
    (tree,) = re.findall(r"## The tree\n\n```\n(.*?)```", README, flags=re.DOTALL)
    root = Path(cp.__file__).parent
    for name in re.findall(r"^  (\w+)[/.]", tree, flags=re.MULTILINE):
        assert (root / name).is_dir() or (root / f"{name}.py").is_file(), name


def test_the_first_screen_shows_the_two_commands_on_own_data():
    first = README.splitlines()[:30]
    commands = [line.split()[1:3] for line in first if line.startswith("calm ")]
    assert commands[:2] == [["train", "mine.h5"], ["report", "runs/mine"]]


def test_the_tree_has_every_room_once():
    (tree,) = re.findall(r"## The tree\n\n```\n(.*?)```", README, flags=re.DOTALL)
    told = re.findall(r"^  (\w+)/ ", tree, flags=re.MULTILINE)
    rooms = [path.name for path in Path(cp.__file__).parent.iterdir() if path.is_dir() and path.name != "__pycache__"]
    assert sorted(told) == sorted(rooms)
