"""With neighbors given, `advance` and `decode` trace whole; checked in a child process without the import hook."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import torch, calm_pde as cp

model = cp.CalmConfig.preset("navier_stokes_2d", encoder={"num_queries": (40, 20, 8)}, decoder={"num_queries": (20, 40)},
                             integrator="heun", substeps=2).build()
points, values = torch.rand(3, 60, 2), torch.randn(3, 60, 1)
queries = torch.rand(3, 30, 2)
mask = torch.arange(60) < torch.tensor([[60], [50], [40]])
neighbors = model.neighbors(points, queries, mask)

def whole(advance, decode):
    model.zero_grad()
    z, p = model.encode(values, points, mask, neighbors=neighbors)
    u = decode(advance(z, p, times=[0.5, 1.0, 2.0]), p, queries, neighbors)
    u.square().sum().backward()
    return [u.detach(), *(parameter.grad.clone() for parameter in model.parameters())]

eager = whole(model.advance, model.decode)
compiled = whole(*(torch.compile(f, fullgraph=True, backend="aot_eager") for f in (model.advance, model.decode)))
scale = max(float(a.abs().max()) for a in eager[1:])  # some gradients are zero but for rounding: the shift of the keys' norm
worst = max(float((a - b).abs().max() / (a.abs().max() + 1e-4 * scale)) for a, b in zip(eager, compiled, strict=True))
encode = torch.compile(model.encode, fullgraph=True, backend="aot_eager")
again = encode(values, points, mask, neighbors=neighbors)[0]
worst = max(worst, float((again - model.encode(values, points, mask)[0]).detach().abs().max()))
print(len(eager), worst)
assert worst < 1e-5, worst
"""


def test_compiles_whole_forward_and_backward():
    run = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr[-3000:]
    assert int(run.stdout.split()[0]) > 40
