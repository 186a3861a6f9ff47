"""Made-up contents of reports after the contract between Python and the page, packed and filled in by code of their own."""

from __future__ import annotations

import base64
import html
import json
import re
import zlib
from pathlib import Path
from typing import Any

import numpy as np

PAGE = Path(__file__).parents[2] / "calm_pde" / "report" / "page"
Content = dict[str, Any]


def pack(values: np.ndarray, kind: str, deltas: bool = False) -> Content:
    """An array of the contract: quantized, differenced in time, in byte planes, deflated, base64."""
    values = np.asarray(values)
    low = high = 0.0
    if kind in ("uint16", "uint8"):
        low, high, most = float(values.min()), float(values.max()), np.iinfo(kind).max
        scaled = (values - low) / (high - low) * most if high > low else np.zeros(values.shape)
        numbers = np.rint(scaled).astype(kind)
    else:
        numbers = values.astype(kind)
    if deltas:
        numbers = np.concatenate([numbers[:1], numbers[1:] - numbers[:-1]])
    planes = numbers.astype(np.dtype(kind).newbyteorder("<")).reshape(-1).view(np.uint8).reshape(-1, np.dtype(kind).itemsize)
    data = base64.b64encode(zlib.compress(np.ascontiguousarray(planes.T).tobytes())).decode()
    return {"shape": list(values.shape), "type": kind, "low": low, "high": high, "deltas": deltas, "data": data}


def unpack(array: Content) -> np.ndarray:
    """The values that a reader of the contract gets back."""
    dtype = np.dtype(array["type"])
    planes = np.frombuffer(zlib.decompress(base64.b64decode(array["data"])), np.uint8).reshape(dtype.itemsize, -1)
    numbers = np.ascontiguousarray(planes.T).view(dtype.newbyteorder("<")).reshape(array["shape"]).astype(dtype)
    if array["deltas"]:
        numbers = np.cumsum(numbers, axis=0, dtype=dtype)
    if dtype.kind == "u" and dtype.itemsize < 4:
        return array["low"] + numbers / np.iinfo(dtype).max * (array["high"] - array["low"])
    return numbers


def page(content: Content) -> str:
    """The whole HTML file, filled in one pass so that no text of the content is taken for a placeholder."""
    text = json.dumps(content, allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    parts = {
        "title": html.escape(content["title"]),
        "style": (PAGE / "page.css").read_text(),
        "content": text,
        "script": (PAGE / "page.js").read_text(),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], (PAGE / "page.html").read_text())


def mesh(points: np.ndarray, triangles: np.ndarray | None = None, slices: list[Content] | None = None) -> Content:
    packed = pack(triangles, "uint32") if triangles is not None else None
    return {"points": pack(points, "float32"), "triangles": packed, "total": len(points), "slices": slices or []}


def grid_points(*sizes: int) -> np.ndarray:
    axes = [np.arange(size) / size for size in sizes]
    return np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, len(sizes))


def grid_triangles(rows: int, columns: int) -> np.ndarray:
    corner = (np.arange(rows - 1)[:, None] * columns + np.arange(columns - 1)).reshape(-1)
    a, b, c, d = corner, corner + 1, corner + columns, corner + columns + 1
    return np.concatenate([np.stack([a, b, c], 1), np.stack([b, d, c], 1)])


def holed_mesh(rings: int, spokes: int, radius: float) -> tuple[np.ndarray, np.ndarray]:
    """A square from −1 to 1 around a round hole, in rings of points from the hole to the rim."""
    angle = 2 * np.pi * np.arange(spokes) / spokes
    circle = np.stack([np.cos(angle), np.sin(angle)], -1)
    square = circle / np.abs(circle).max(1, keepdims=True)
    share = np.linspace(0, 1, rings)[:, None, None] ** 1.3
    points = ((1 - share) * radius * circle + share * square).reshape(-1, 2)
    ring, spoke = np.meshgrid(np.arange(rings - 1), np.arange(spokes), indexing="ij")
    a, b = ring * spokes + spoke, ring * spokes + (spoke + 1) % spokes
    first, second = np.stack([a, b, a + spokes], -1), np.stack([b, b + spokes, a + spokes], -1)
    return points, np.concatenate([first.reshape(-1, 3), second.reshape(-1, 3)])


def waves(points: np.ndarray, times: np.ndarray, phase: float, signed: bool = True) -> np.ndarray:
    """A wave that wanders and decays, (time, point)."""
    steps = times[:, None] / max(1.0, float(times[-1]))
    along = points[:, 0] * 2 * np.pi - 3 * steps + phase
    across = points[:, 1:].sum(1) * 2 * np.pi
    values = np.exp(-0.8 * steps) * (np.sin(along) + 0.5 * np.cos(across + 0.5 * along))
    return values if signed else 2 + values


def truth_and_residual(points: np.ndarray, times: np.ndarray, number: int, field: int) -> tuple[np.ndarray, np.ndarray]:
    """What sample `number` holds, before it is packed."""
    truth = waves(points, times, 0.7 * number + field, signed=field == 0)
    size = 0.02 + 0.1 * np.arange(len(times))[:, None] / len(times)
    noise = np.random.default_rng(10 * number + field).standard_normal(truth.shape)
    return truth, size * (np.cos(9 * points[:, 0] + number) + 0.3 * noise)


def sample(name: str, rank: str | None, number: int, points: np.ndarray, times: np.ndarray, fields: int, mesh: int) -> Content:
    packed, errors = [], []
    for field in range(fields):
        truth, residual = truth_and_residual(points, times, number, field)
        packed.append({"truth": pack(truth, "uint16", True), "residual": pack(residual, "uint16", True)})
        errors.append((np.linalg.norm(residual, axis=1) / np.linalg.norm(truth, axis=1)).tolist())
    return {
        "name": name,
        "rank": rank,
        "error": float(np.mean(errors)),
        "mesh": mesh,
        "frame_errors": errors,
        "fields": packed,
    }


FIELDS = [
    {"name": "vorticity", "unit": "1/s", "low": -1.5, "high": 1.5},
    {"name": "pressure", "unit": "Pa", "low": 0.5, "high": 3.5},
]


def heading() -> Content:
    """What stands above all."""
    return {
        "title": "navier_stokes_2d_demo",
        "facts": [
            ["Model", "CALM-PDE, 310,000 parameters"],
            ["Data", "navier_stokes_2d, 24 test samples"],
            ["Training", "4.7 min, 60 epochs on 2 threads"],
            ["Seed", "0"],
            ["Commit", "0123abc"],
        ],
        "headline": {
            "error": 0.0452,
            "spread": 0.0088,
            "metric": "relative L2",
            "baseline": 0.834,
            "baseline_kind": "persistence",
            "seconds": 0.012,
            "solver_seconds": 1.3,
            "speedup": 108.0,
            "samples": 24,
            "split": "test",
        },
    }


def content(
    clouds: list[tuple[np.ndarray, np.ndarray | None]],
    frames: int = 12,
    fields: int = 2,
    analyses: bool = True,
    slices: list[Content] | None = None,
    samples: int = 3,
) -> Content:
    """A content on the given point clouds with triangles; with several of them each sample has its own."""
    points = clouds[0][0]
    dim = points.shape[1]
    times = np.arange(frames) * 0.5
    ranks = ["worst", "median", "best"]
    meshes = [mesh(*cloud, slices) for cloud in clouds]
    chosen = [dict(field) for field in FIELDS[:fields]]
    result: Content = {
        "version": 1,
        **heading(),
        "task": "rollout" if frames > 1 else "steady",
        "dim": dim,
        "axes": list("xyz"[:dim]),
        "lower": points.min(0).tolist(),
        "upper": (points.max(0)).tolist(),
        "periodic": [False] * dim,
        "fields": chosen,
        "times": times.tolist(),
        "given": 1 if frames > 1 else 0,
        "trained_until": float(times[frames * 2 // 3]) if frames > 1 else None,
        "conditions": None,
        "meshes": meshes,
        "samples": [
            sample(f"trajectory {i}", ranks[i], i, clouds[i % len(clouds)][0], times, fields, i % len(clouds))
            for i in range(samples)
        ],
        "errors": {"times": times.tolist(), "fields": [error_curve(field, frames) for field in chosen]},
        "error_map": None,
        "training": None,
        "layers": [],
        "tokens": None,
        "kernels": [],
        "sizes": None,
        "tables": [],
        "config": json.dumps({"model": {"name": "calm", "layers": 3}, "seed": 0}, indent=2),
    }
    if len(clouds) == 1:
        result["error_map"] = {
            "mesh": 0,
            "fields": [pack(0.1 + np.abs(np.cos(4 * points[:, 0] + i)), "uint16") for i in range(fields)],
        }
    if analyses:
        result |= analysis(points, fields, frames > 1)
    return result


def error_curve(field: Content, frames: int) -> Content:
    grows = np.linspace(0.01, 0.09, frames)
    parts = {"mean": grows, "std": 0.3 * grows, "baseline": np.linspace(0.02, 0.9, frames)}
    return {"name": field["name"], "unit": "", **{name: values.tolist() for name, values in parts.items()}}


def analysis(points: np.ndarray, fields: int, timed: bool) -> Content:
    """Training, query paths, tokens, kernels, sizes and tables of a CALM-PDE."""
    rng = np.random.default_rng(7)
    dim = points.shape[1]
    low, size = points.min(0), np.ptp(points, axis=0)
    epochs = np.arange(1, 61)
    layers = []
    for name, queries in [("encoder 1", 128), ("encoder 2", 64), ("encoder 3", 16), ("decoder 1", 64), ("decoder 2", 128)]:
        start = rng.random((1, queries, dim))
        drift = 0.004 * np.cumsum(rng.standard_normal((51, queries, dim)), 0)
        path = low + size * np.clip(start + drift - drift[:1], 0, 1)
        layers.append({"name": name, "epochs": list(range(51)), "path": pack(path, "float32"), "fixed": name == "decoder 2"})
    tokens = low + size * rng.random((16, dim))
    distance = np.linalg.norm((points[None] - tokens[:, None]) / size, axis=-1)
    near, far = np.exp(-((distance / 0.15) ** 2)), 0.5 * np.exp(-((distance / 0.4) ** 2))
    kernels = []
    for name, filters in [("encoder 1", 16), ("encoder 2", 64)]:
        queries = []
        for _ in range(8):
            at = low + size * rng.random(dim)
            order = np.argsort(np.linalg.norm((points - at) / size, axis=1))[:80]
            offset = (points[order] - at) / size
            weights = np.stack(
                [np.exp(-20 * (offset**2).sum(1)) * np.sin(9 * offset @ rng.standard_normal(dim)) for _ in range(filters)], 1
            )
            queries.append({"at": at.tolist(), "points": pack(points[order], "float32"), "weights": pack(weights, "uint16")})
        kernels.append({"name": name, "num_filters": filters, "queries": queries})
    return {
        "training": {
            "epochs": epochs.tolist(),
            "loss": (0.6 * np.exp(-epochs / 15) + 0.02 * rng.random(60)).tolist(),
            "validation": [[int(e), float(0.5 * np.exp(-e / 18) + 0.04)] for e in epochs[4::5]],
            "learning_rate": (1e-3 * 0.5 * (1 + np.cos(np.pi * epochs / 60))).tolist(),
            "length": np.minimum(1 + epochs // 6, 10).tolist(),
        },
        "layers": layers,
        "tokens": {
            "mesh": 0,
            "sample": 0,
            "positions": pack(tokens, "float32"),
            "thinned": None,
            "fields": [
                {"at_once": pack(near / (1 + i), "uint8"), "last": pack(far / (1 + i), "uint8") if timed else None}
                for i in range(fields)
            ],
        },
        "kernels": kernels,
        "sizes": {"physical": {"points": len(points), "channels": fields}, "latent": {"points": 16, "channels": 32}},
        "tables": [
            {
                "title": "Errors",
                "columns": ["field", "relative L2", "RMSE", "largest", "at the end", "persistence"],
                "rows": [[field["name"], "0.0452 ± 0.0088", "0.031", "0.41", "0.0721 ± 0.0120", "0.834"] for field in FIELDS],
            }
        ],
    }


def line() -> Content:
    points = np.random.default_rng(0).permutation(grid_points(128))  # in no order
    return content([(points, None)], frames=20)


def grid() -> Content:
    return content([(grid_points(48, 48), grid_triangles(48, 48))])


def holed() -> Content:
    return content([holed_mesh(14, 72, 0.35)])


def crowded_mesh() -> tuple[np.ndarray, np.ndarray]:
    """The mesh with the hole, drawn together around it: most points in a small part of a wide domain."""
    points, triangles = holed_mesh(14, 72, 0.35)
    return points * 1000 ** (np.abs(points).max(1, keepdims=True) - 1) + np.array([0.3, 0.0]), triangles


def crowded() -> Content:
    return content([crowded_mesh()], analyses=False)


def per_sample() -> Content:
    return content([holed_mesh(12 + i, 60 + 8 * i, 0.2 + 0.15 * i) for i in range(3)], analyses=False)


def with_conditions(result: Content) -> Content:
    """Two parameters, of which the model is told one, two signals with knots of their own, and a wall that is given."""
    result["conditions"] = {
        "parameters": [
            {"name": "conductivity", "unit": "W/(m·K)", "told": True},
            {"name": "age", "unit": "", "told": False},
        ],
        "signals": [{"name": "wall", "unit": "°C", "told": True}, {"name": "level", "unit": "", "told": True}],
        "prescribed": [{"field": "vorticity", "where": "wall"}, {"field": "pressure", "where": "all points"}],
    }
    last = result["times"][-1]
    for i, each in enumerate(result["samples"]):
        times = [-1.0, 0.0, 0.3 * last, 0.5 * last, last + 1]
        each |= {
            "parameters": [40.5 + i, None],
            "signals": {"times": times, "values": [[20.0, 20.0, 80.0 + i, 80.0 + i, -10.0], [3.0] * 5]},
        }
    return result


def told() -> Content:
    return with_conditions(content([(grid_points(24, 24), grid_triangles(24, 24))], analyses=False))


def cloud() -> Content:
    rng = np.random.default_rng(3)
    return content([(rng.random((2500, 2)), None)], frames=6, fields=1, analyses=False)


def space() -> Content:
    points = grid_points(14, 14, 14)
    index = np.arange(14**3).reshape(14, 14, 14)
    flat = grid_triangles(14, 14)
    slices = []
    for axis, triangulated in [(2, True), (0, False)]:
        chosen = index.take(7, axis=axis).reshape(-1)
        triangles = pack(chosen[flat], "uint32") if triangulated else None
        slices.append({"axis": axis, "at": 0.5, "points": pack(chosen, "uint32"), "triangles": triangles})
    result = content([(points, None)], frames=8, slices=slices)
    result["meshes"][0]["total"] = 262_144
    return result


def steady() -> Content:
    return content([holed_mesh(14, 72, 0.35)], frames=1)


def large(points_per_side: int = 448, frames: int = 4) -> Content:
    """Over 200,000 points per panel."""
    side = points_per_side
    return content([(grid_points(side, side), grid_triangles(side, side))], frames, fields=1, analyses=False, samples=1)


HOSTILE = [
    "<script>window.harmed = 1</script>",
    '</script><img src=x onerror="window.harmed = 2">',
    "\"'`${window.harmed = 3}{{script}}",
    "🙂 ψ‮<!-- &lt;b&gt;\u2028",
]


def hostile() -> Content:
    """A content in which every text is hostile."""
    result = with_conditions(content([(grid_points(12, 12), grid_triangles(12, 12))], frames=3))
    first, second, third, fourth = HOSTILE
    result["title"] = second
    result["facts"] = [[text, text] for text in HOSTILE]
    result["headline"] |= {"metric": first, "baseline_kind": third, "split": fourth}
    result["axes"] = [first, fourth]
    for each in (one for kind in result["conditions"].values() for one in kind):
        each |= {name: HOSTILE[i] for i, name in enumerate(("name", "unit", "field", "where")) if name in each}
    for field, name in zip(result["fields"], (first, second), strict=True):
        field |= {"name": name, "unit": third}
    for each, name in zip(result["samples"], HOSTILE, strict=False):
        each["name"] = name
    for i, each in enumerate(result["layers"] + result["kernels"] + result["errors"]["fields"]):
        each["name"] = HOSTILE[i % 4]
    result["tables"] = [{"title": second, "columns": HOSTILE, "rows": [HOSTILE]}]
    result["config"] = "\n".join(HOSTILE)
    result["task"] = fourth
    return result
