"""Nothing leads out of an HDF5 file: what does is refused by name, wherever such files are opened."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest

from calm_pde.errors import FileError
from calm_pde.files.links import own
from tests.files.links import WAYS_OUT, lead_out


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["group/values"] = np.arange(3.0)
        file["again"] = file["group"]
    return tmp_path / "a.h5"


def test_what_is_in_the_file_is_found_under_all_its_names(path: Path) -> None:
    with h5py.File(path) as file:
        assert own(path, file, "group/values")[()].tolist() == own(path, file, "again/values")[()].tolist() == [0, 1, 2]
        assert isinstance(own(path, file, "group"), h5py.Group)
        assert own(path, file, "none") is own(path, file, "group/none") is own(path, file, "group/values/none") is None


@pytest.mark.parametrize("way", WAYS_OUT)
def test_what_leads_out_of_the_file_is_refused(path: Path, way: str) -> None:
    lead_out(path, "group/values", way)
    with h5py.File(path) as file, pytest.raises(FileError, match=rf"a\.h5, again/values: {way}"):
        own(path, file, "again/values")


def test_a_group_elsewhere_is_not_entered(path: Path) -> None:
    with h5py.File(path, "a") as file:
        file["outside"] = h5py.ExternalLink("there_is_none.h5", "/")
    with h5py.File(path) as file, pytest.raises(FileError, match="outside/values: is an external link to / in there_is_none"):
        own(path, file, "outside/values")
