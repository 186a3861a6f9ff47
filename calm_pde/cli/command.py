"""The `calm` command: which verb does what, and how it ends when something is wrong."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import tyro
from pydantic import create_model
from rich.console import Console

from calm_pde.cli.bench import bench
from calm_pde.cli.check import check
from calm_pde.cli.convert import Output, convert
from calm_pde.cli.demo import demo
from calm_pde.cli.evaluate import evaluate
from calm_pde.cli.generate import Generation, generate_data
from calm_pde.cli.import_weights import import_weights
from calm_pde.cli.init import init
from calm_pde.cli.models import models
from calm_pde.cli.predict import predict
from calm_pde.cli.report import report
from calm_pde.cli.train import train
from calm_pde.config import Config, suggestion
from calm_pde.data.readers import READERS
from calm_pde.errors import CalmError, OutsideBoxWarning, OutsideMeshWarning, TrainingRangeWarning
from calm_pde.solvers import PROBLEMS
from calm_pde.train.loop import Interrupted

COMMANDS: dict[str, Callable[..., None]] = {
    "bench": bench,
    "check": check,
    "demo": demo,
    "evaluate": evaluate,
    "init": init,
    "models": models,
    "predict": predict,
    "report": report,
}
OF_MODELS: dict[str, Callable[[list[str]], None]] = {"import-weights": import_weights, "train": train}
"""Those that read their arguments themselves, since any setting of a model can be said: --model.processor.heads 4."""
KINDS: dict[str, tuple[type[Output], dict[str, Any], Callable[..., None]]] = {
    "convert": (Output, READERS, convert),
    "generate": (Generation, PROBLEMS, generate_data),
}


def main(arguments: list[str] | None = None) -> None:
    """Fast neural surrogates of time-dependent PDEs on any mesh."""
    arguments = sys.argv[1:] if arguments is None else arguments
    with _plain_warnings():
        _run(arguments)


def _run(arguments: list[str]) -> None:
    try:
        if arguments and arguments[0] in KINDS:
            _run_kind(arguments[0], arguments[1:])
        elif arguments and arguments[0] in OF_MODELS:
            OF_MODELS[arguments[0]](arguments[1:])
        else:
            known = COMMANDS | {name: _listed(command) for name, (_, _, command) in KINDS.items()}
            known |= {name: _listed(command) for name, command in OF_MODELS.items()}
            tyro.extras.subcommand_cli_from_dict(known, prog="calm", description=main.__doc__, args=arguments)
    except Interrupted as error:
        Console(stderr=True).print(f"calm: {error}", markup=False, highlight=False, soft_wrap=True)
        sys.exit(130)
    except CalmError as error:
        Console(stderr=True).print(f"calm: {error}", style="red", markup=False, highlight=False, soft_wrap=True)
        sys.exit(2)
    except BrokenPipeError:  # who read what is said has left, as `| head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except KeyboardInterrupt:
        Console(stderr=True).print("calm: interrupted; nothing half-written is left.", style="red")
        sys.exit(130)


@contextmanager
def _plain_warnings() -> Iterator[None]:
    """Ours in the words of errors, without the place in the code that a user never wrote."""
    shown = warnings.showwarning

    def show(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
        if issubclass(category, (OutsideBoxWarning, OutsideMeshWarning, TrainingRangeWarning)):
            Console(stderr=True).print(f"calm: {message}", style="yellow", markup=False, highlight=False, soft_wrap=True)
        else:
            shown(message, category, *place, **more)

    warnings.showwarning = show
    try:
        yield
    finally:
        warnings.showwarning = shown


def _run_kind(name: str, arguments: list[str]) -> None:
    """`calm NAME KIND …`, where a kind's own options stand beside those of the command."""
    job, kinds, command = KINDS[name]
    forms = {kind: create_model(kind, __base__=(job, form), __doc__=form.__doc__) for kind, form in kinds.items()}
    if arguments and not arguments[0].startswith("-") and arguments[0] not in kinds:
        ending = f".{arguments[0].lower().removeprefix('.')}"
        readers = [kind for kind, form in kinds.items() if ending in getattr(form, "endings", ())]
        fix = f"For {ending} files say: calm {name} {readers[0]} …" if readers else suggestion(arguments[0], list(kinds))
        raise CalmError(f"calm {name}: expected a kind, got {arguments[0]!r}. {fix}")
    chosen = tyro.extras.subcommand_cli_from_dict(forms, prog=f"calm {name}", description=command.__doc__, args=arguments)
    kind = chosen.__class__.__name__
    command(kind, _part(chosen, kinds[kind]), _part(chosen, job))


def _part(chosen: Config, form: type[Config]) -> Config:
    return form(**{name: getattr(chosen, name) for name in form.model_fields})


def _listed(command: Callable[..., None]) -> Callable[[], None]:
    def shown() -> None: ...

    shown.__doc__ = command.__doc__
    return shown
