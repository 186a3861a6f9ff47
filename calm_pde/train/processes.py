"""Several processes on one batch: who is who, and sums over all. Without torchrun there is one process and nothing to do."""

from __future__ import annotations

import os
from collections.abc import Iterable

import torch
import torch.distributed as dist

from calm_pde.errors import TrainingError
from calm_pde.types import Tensor


class Processes:
    """The processes that torchrun started; NCCL with GPUs, gloo without."""

    def __init__(self) -> None:
        self.size = int(os.environ.get("WORLD_SIZE", "1"))
        self.rank = int(os.environ.get("RANK", "0"))
        gpu = torch.cuda.is_available()
        self.device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0"))) if gpu else torch.device("cpu")
        if self.size > 1 and not dist.is_initialized():
            dist.init_process_group("nccl" if gpu else "gloo")

    @property
    def first(self) -> bool:
        return self.rank == 0

    def sum(self, values: Tensor) -> Tensor:
        """The sum over all processes, in place."""
        if self.size > 1:
            try:
                dist.all_reduce(values)
            except RuntimeError as error:
                raise TrainingError(
                    "distributed: another process has ended or cannot be reached. Start the same command again: it resumes. "
                    f"({str(error).splitlines()[0]})"
                ) from error
        return values

    def sum_gradients(self, parameters: Iterable[Tensor]) -> None:
        """Each gradient becomes its sum over all processes; one message for all of them."""
        if self.size == 1:
            return
        held = [parameter for parameter in parameters if parameter.requires_grad]
        for parameter in held:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        flat = self.sum(torch.cat([parameter.grad.flatten() for parameter in held if parameter.grad is not None]))
        for parameter, part in zip(held, flat.split([parameter.numel() for parameter in held]), strict=True):
            parameter.grad = part.view_as(parameter).clone()

    def wait(self) -> None:
        self.sum(torch.zeros(1, device=self.device))

    def close(self) -> None:
        if self.size > 1 and dist.is_initialized():
            dist.destroy_process_group()
