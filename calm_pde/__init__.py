"""Fast neural surrogates of time-dependent PDEs on any mesh, after the paper CALM-PDE."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from calm_pde import errors

if TYPE_CHECKING:
    from calm_pde.bench.runs.job import Comparison, compare
    from calm_pde.data.arrays import from_arrays
    from calm_pde.data.convert import convert
    from calm_pde.data.dataset import Dataset
    from calm_pde.data.generate import generate
    from calm_pde.data.storage import DataFile
    from calm_pde.geometry import Box
    from calm_pde.metrics.scores import Evaluation
    from calm_pde.models import CalmConfig, CalmPDE
    from calm_pde.models.calm.layer import CalmLayer
    from calm_pde.records.batch import Batch
    from calm_pde.records.inputs import Inputs
    from calm_pde.records.symmetry import Symmetry
    from calm_pde.report.page import Report, write_report
    from calm_pde.surrogate import Surrogate
    from calm_pde.surrogate.evaluate import evaluate
    from calm_pde.surrogate.import_weights import import_weights
    from calm_pde.surrogate.predict import predict
    from calm_pde.train.fit import Run, fit
    from calm_pde.train.rule.own import recipe_for

__version__ = "0.1.0"

__all__ = [
    "Batch",
    "Box",
    "CalmConfig",
    "CalmLayer",
    "CalmPDE",
    "Comparison",
    "DataFile",
    "Dataset",
    "Evaluation",
    "Inputs",
    "Report",
    "Run",
    "Surrogate",
    "Symmetry",
    "compare",
    "convert",
    "errors",
    "evaluate",
    "fit",
    "from_arrays",
    "generate",
    "import_weights",
    "predict",
    "recipe_for",
    "write_report",
]

_ROOMS = {
    "Batch": "records.batch",
    "Box": "geometry",
    "CalmConfig": "models",
    "CalmLayer": "models.calm.layer",
    "CalmPDE": "models",
    "Comparison": "bench.runs.job",
    "DataFile": "data.storage",
    "Dataset": "data.dataset",
    "Evaluation": "metrics.scores",
    "Inputs": "records.inputs",
    "Report": "report.page",
    "Run": "train.fit",
    "Surrogate": "surrogate",
    "Symmetry": "records.symmetry",
    "compare": "bench.runs.job",
    "convert": "data.convert",
    "evaluate": "surrogate.evaluate",
    "fit": "train.fit",
    "from_arrays": "data.arrays",
    "generate": "data.generate",
    "import_weights": "surrogate.import_weights",
    "predict": "surrogate.predict",
    "recipe_for": "train.rule.own",
    "write_report": "report.page",
}


def __getattr__(name: str) -> Any:
    """Public names are found when they are first asked for, so that the command can set up threads before torch loads."""
    if name not in _ROOMS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_ROOMS[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
