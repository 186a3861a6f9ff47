"""The moving picture: its frames, its files, what it can't do."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from matplotlib.animation import PillowWriter
from PIL import Image

from calm_pde.errors import InputError
from calm_pde.report import animation
from calm_pde.report.animation import write_animation
from tests.report.drawings import sample


@pytest.fixture(autouse=True)
def _coarse(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(animation, "_DPI", 50)


@pytest.mark.parametrize("kind", ["line", "triangles"])
def test_every_frame_differs_from_the_one_before(kind, tmp_path):
    paths = write_animation(sample(kind, 5), tmp_path / "moving.gif")
    assert paths[0] == tmp_path / "moving.gif"
    with Image.open(paths[0]) as moving:
        assert moving.n_frames == 5
        pictures = []
        for frame in range(5):
            moving.seek(frame)
            picture = np.asarray(moving.convert("RGB")).astype(int)
            pictures.append(picture[int(0.2 * len(picture)) :])  # without the heading
    for one, other in itertools.pairwise(pictures):
        assert (np.abs(one - other).max(axis=-1) > 20).mean() > 0.002


@pytest.mark.parametrize("there", [True, False])
def test_mp4_only_where_ffmpeg_is(there, tmp_path, monkeypatch):
    class Counted(PillowWriter):
        """Stands for ffmpeg's writer, whatever this machine has."""

        def __init__(self, fps, codec, extra_args):
            super().__init__(fps=fps)

        def finish(self):
            Path(self.outfile).write_bytes(str(len(self._frames)).encode())

        @classmethod
        def isAvailable(cls):
            return there

    monkeypatch.setattr(animation, "FFMpegWriter", Counted)
    seen = []
    paths = write_animation(sample("grid", 3), tmp_path / "a", progress=lambda done, total: seen.append((done, total)))
    assert [path.name for path in paths] == (["a.gif", "a.mp4"] if there else ["a.gif"])
    assert seen == [(1, 3), (2, 3), (3, 3)]
    if there:
        assert paths[1].read_bytes() == b"3"


def test_a_steady_field_does_not_move(tmp_path):
    with pytest.raises(InputError, match="two times"):
        write_animation(sample("grid", 1), tmp_path / "a.gif")
