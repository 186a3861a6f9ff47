"""With neighbors given, `advance` and `decode` trace whole; checked in a child process without the import hook."""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
import sys, torch, calm_pde as cp
from calm_pde.records.inputs import Inputs

counts = {"parameters": 2, "signals": 1, "features": 1, "conditioned_kernels": True} if sys.argv[1] == "told" else {}
model = cp.CalmConfig.preset("navier_stokes_2d", encoder={"num_queries": (40, 20, 8)}, decoder={"num_queries": (20, 40)},
                             integrator="heun", substeps=2, **counts).build()
points, values = torch.rand(3, 60, 2), torch.randn(3, 60, 1)
beside = {"parameters": torch.randn(3, 2), "signals": torch.randn(3, 4, 1), "features": torch.randn(3, 60, 1)} if counts else {}
driving = {name: value for name, value in beside.items() if name != "features"}
seen = {name: value for name, value in beside.items() if name != "signals"}
queries = torch.rand(3, 30, 2)
mask = torch.arange(60) < torch.tensor([[60], [50], [40]])
neighbors = model.neighbors(points, queries, mask)
start = Inputs(values, points, mask=mask, **beside)

def whole(advance, decode):
    model.zero_grad()
    z, p = model.encode(values, points, mask, neighbors=neighbors, **seen)
    u = decode(advance(z, p, times=[0.5, 1.0, 2.0], **driving), p, queries, neighbors, start)
    u.square().sum().backward()
    return [u.detach(), *(parameter.grad.clone() for parameter in model.parameters())]

eager = whole(model.advance, model.decode)
compiled = whole(*(torch.compile(f, fullgraph=True, backend="aot_eager") for f in (model.advance, model.decode)))
scale = max(float(a.abs().max()) for a in eager[1:])  # some gradients are zero but for rounding: the shift of the keys' norm
worst = max(float((a - b).abs().max() / (a.abs().max() + 1e-4 * scale)) for a, b in zip(eager, compiled, strict=True))
encode = torch.compile(model.encode, fullgraph=True, backend="aot_eager")
again = encode(values, points, mask, neighbors=neighbors, **seen)[0]
worst = max(worst, float((again - model.encode(values, points, mask, **seen)[0]).detach().abs().max()))
print(len(eager), worst)
assert worst < 1e-5, worst
"""


@pytest.mark.parametrize("told", ["nothing", pytest.param("told", marks=pytest.mark.slow)])
def test_compiles_whole_forward_and_backward(told):
    run = subprocess.run([sys.executable, "-c", SCRIPT, told], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr[-3000:]
    assert int(run.stdout.split()[0]) > 40
