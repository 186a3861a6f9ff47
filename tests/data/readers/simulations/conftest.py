"""One process reads for all tests here, as one reads all samples of a source; a file may end it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from calm_pde.data.readers.simulations import simulation
from calm_pde.data.readers.simulations.process import ReadingProcess


class Kept(ReadingProcess):
    """Open beyond the source that it reads for."""

    def __exit__(self, *error: object) -> None:
        pass


@pytest.fixture(scope="session")
def kept() -> Iterator[ReadingProcess]:
    kept = Kept(10.0)
    yield kept
    kept.close()


@pytest.fixture
def process(kept: ReadingProcess, monkeypatch: pytest.MonkeyPatch) -> ReadingProcess:
    monkeypatch.setattr(simulation, "ReadingProcess", lambda patience: kept)
    return kept
