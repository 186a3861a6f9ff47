"""Shapes are checked while the tests run: the import hook comes before the first import of the package."""

from __future__ import annotations

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # threads that spin while they wait starve other processes

from jaxtyping import install_import_hook

install_import_hook("calm_pde", "beartype.beartype")

import pytest  # noqa: E402
import torch  # noqa: E402
from hypothesis import settings  # noqa: E402

if "PYTEST_XDIST_WORKER" in os.environ:  # one of several processes, a core each
    torch.set_num_threads(1)

settings.register_profile("repeatable", deadline=None, derandomize=True, max_examples=25)
settings.register_profile("thorough", deadline=None, max_examples=400)  # `make test-slow`
settings.load_profile("repeatable")


@pytest.fixture(autouse=True)
def _fixed_seed() -> None:
    torch.manual_seed(0)
