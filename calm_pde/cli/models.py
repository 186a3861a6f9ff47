"""`calm models`: the models that there are, with their sizes and what each can do."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from calm_pde.models import MODELS, ModelConfig
from calm_pde.models.contract import Abilities
from calm_pde.models.size import predicted_parameters


def models() -> None:
    """All models: their presets, how many parameters each has, and what a model can do."""
    shown = Table()
    shown.add_column("model", no_wrap=True)
    shown.add_column("can do")
    shown.add_column("preset", no_wrap=True)
    shown.add_column("parameters", justify="right", no_wrap=True)
    for kind, config in MODELS.items():
        sizes = {name: predicted_parameters(config.preset(name)).numbers for name in config.presets}
        shown.add_row(kind, _abilities(config), "\n".join(sizes), "\n".join(f"{size:,}" for size in sizes.values()))
        shown.add_section()
    console = Console()
    console.print(shown)
    console.print("A recipe names one of them: model: {kind: calm, preset: navier_stokes_2d}", highlight=False, markup=False)


def _abilities(config: type[ModelConfig]) -> str:
    """One line each: its tasks, and whatever it declares in at least one of its presets; what it can't do is left out."""
    forms = [config.preset(name).abilities for name in config.presets]
    able = [name.replace("_", " ") for name in Abilities._fields if any(getattr(form, name) for form in forms)]
    return "\n".join([*config.tasks(), *able])
