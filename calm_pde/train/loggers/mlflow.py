"""MLflow: a run in the store that MLFLOW_TRACKING_URI names, or in the folder mlruns."""

from __future__ import annotations

import math
import os
import time
from pathlib import Path
from typing import Any, ClassVar

from calm_pde.files.folders import replace_file
from calm_pde.train.loggers.logger import Logger, flat

EXPERIMENT = "calm-pde"
KEPT = "mlflow.txt"
"""Of the file in a run that names it there, so that a resumed one goes on."""
_LONGEST, _AT_ONCE = 500, 100  # letters of a parameter's value, and parameters of a call


class MLflow(Logger):
    name: ClassVar[str] = "MLflow"
    extra: ClassVar[str] = "mlflow"

    def __init__(self, run: Path, name: str, settings: dict[str, Any], step: int) -> None:
        if not os.environ.get("MLFLOW_TRACKING_URI"):
            os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")  # newer ones ask before they write to a folder
        mlflow, self._entities = self.module("mlflow"), self.module("mlflow.entities")
        store = os.environ.get("MLFLOW_TRACKING_URI") or Path("mlruns").resolve().as_uri()
        self._client, kept = mlflow.MlflowClient(store), run / KEPT
        if kept.exists():
            self._id = kept.read_text().strip()
            self._client.update_run(self._id, status="RUNNING")
            return
        known = self._client.get_experiment_by_name(EXPERIMENT)
        experiment = self._client.create_experiment(EXPERIMENT) if known is None else known.experiment_id
        self._id = self._client.create_run(experiment, run_name=run.name).info.run_id
        told = [(key, str(value)[:_LONGEST]) for key, value in flat(settings).items()]
        for start in range(0, len(told), _AT_ONCE):
            some = told[start : start + _AT_ONCE]
            self._client.log_batch(self._id, params=[self._entities.Param(*entry) for entry in some])
        replace_file(kept, self._id.encode())

    def add(self, values: dict[str, float], step: int) -> None:
        now = round(1000 * time.time())
        found = [self._entities.Metric(name, value, now, step) for name, value in values.items() if math.isfinite(value)]
        self._client.log_batch(self._id, metrics=found)

    def close(self, finished: bool) -> None:
        self._client.set_terminated(self._id, "FINISHED" if finished else "KILLED")
