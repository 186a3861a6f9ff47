"""Where the numbers of a training go beside its own record, by name."""

from __future__ import annotations

from typing import Literal

from calm_pde.train.loggers.logger import Logger
from calm_pde.train.loggers.mlflow import MLflow
from calm_pde.train.loggers.tensorboard import TensorBoard
from calm_pde.train.loggers.wandb import WeightsAndBiases

LoggerName = Literal["tensorboard", "mlflow", "wandb"]

LOGGERS: dict[LoggerName, type[Logger]] = {"tensorboard": TensorBoard, "mlflow": MLflow, "wandb": WeightsAndBiases}
