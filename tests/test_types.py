"""The package does not need the development tools it is annotated for."""

from __future__ import annotations

import subprocess
import sys


def test_imports_and_runs_without_jaxtyping():
    script = """
import sys
sys.modules["jaxtyping"] = sys.modules["beartype"] = None
import torch, calm_pde as cp
layer = cp.CalmLayer(1, 1, 2, num_queries=3, receptive_field=0.5)
print(tuple(layer(torch.rand(9, 1), torch.rand(9, 2))[0].shape))
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "(3, 1)"
