"""The story of own data, as examples/heat/README.md tells it: a simulation of the user's, trained on and solved anew."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from calm_pde.cli import main
from calm_pde.data.storage import DataFile
from calm_pde.surrogate.surrogate import Surrogate

HEAT = Path(__file__).parents[2] / "examples" / "heat"
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)


def test_the_script_is_short_and_knows_nothing_of_the_package() -> None:
    text = (HEAT / "make_data.py").read_text()
    assert len(text.splitlines()) <= 80
    assert "calm_pde" not in text


@pytest.mark.filterwarnings("always::calm_pde.errors.TrainingRangeWarning")  # ten cases cover little
def test_every_command_of_the_page_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    """The same commands with 10 cases and a training of seconds."""
    monkeypatch.chdir(tmp_path)
    blocks = BLOCK.findall((HEAT / "README.md").read_text())
    commands = next(text for language, text in blocks if not language)
    code = next(text for language, text in blocks if language == "python")
    subprocess.run([sys.executable, HEAT / "make_data.py", "10"], check=True)
    told = []
    for line in commands.splitlines():
        words = line.partition("#")[0].replace("--minutes 10", "--minutes 0.01").split()
        if words[0] == "calm":
            main(words[1:])
            told.append(capsys.readouterr().out)
    found = DataFile("heat.h5").description
    assert (found.parameters, found.signals) == (("conductivity", "power", "speed"), ("wall",))
    assert found.units == {"conductivity": "W/(m K)", "power": "kW/m", "speed": "mm/s", "wall": "°C"}
    assert "must be given: conductivity, power, speed, wall" in told[1]
    assert Path("runs/heat/report.html").stat().st_size > 20000
    assert Path("new_0000.vtkhdf").exists()
    main(["predict", "runs/heat", "--input", "new.h5", "--out", "hot.npz", "--parameters", "power=99"])
    assert "calm: parameters: power leaves the range seen in training: power = 99" in capsys.readouterr().err.splitlines()[-1]
    short = ["--train.epochs", "1", "--train.batches-per-epoch", "1"]
    main(["train", "heat.h5", "--data.conditions", "false", *short, "--out", "alone"])
    assert not any(Surrogate.load("alone").conditions.values())
    space: dict = {}
    exec(code, space)
    assert space["u"].shape == (20, len(space["points"]), 1)
    assert np.isfinite(space["u"]).all()
    other = {"parameters": {"conductivity": 50, "power": 12, "speed": 1}, "signals": {"wall": space["wall"]}}
    again = space["surrogate"].solve(space["initial"], space["points"], times=np.linspace(5, 100, 20), **other)
    assert not np.array_equal(space["u"], again)
