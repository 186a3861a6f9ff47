"""`calm models` names every model of the registry, its presets with their sizes, and what it declares."""

from __future__ import annotations

from contextlib import suppress

from calm_pde.cli import main
from calm_pde.errors import ConfigError
from calm_pde.models import MODELS
from calm_pde.models.size import num_parameters

TOLD = {"calm": "bakes", "aroma": "stages", "fno": "frame to frame"}


def _learns(config, task):
    """Whether one of its presets can be told a task."""
    for preset in config.presets:
        with suppress(ConfigError):
            return config.preset(preset, task=task).task == task
    return False


def test_every_model_is_shown_with_sizes_and_abilities(capsys):
    main(["models"])
    sections = capsys.readouterr().out.split("┩")[1].split("├")
    for section, (kind, config) in zip(sections, MODELS.items(), strict=True):
        lines = [[cell.strip() for cell in line.split("│")[1:-1]] for line in section.splitlines() if line.count("│") == 5]
        assert lines[0][0] == kind
        forms = [config.preset(name).abilities._asdict() for name in config.presets]
        able = {name.replace("_", " ") for form in forms for name, value in form.items() if value}
        tasks = {task for task in ("rollout", "steady", "autoencoder") if _learns(config, task)}
        assert {line[1] for line in lines} - {""} == able | tasks
        assert TOLD.get(kind) in {None, *able}
        assert [line[2] for line in lines if line[2]] == list(config.presets)
        assert lines[0][3] == f"{num_parameters(config.preset(lines[0][2]).build()):,}"
