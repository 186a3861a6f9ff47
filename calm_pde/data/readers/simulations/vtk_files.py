"""VTK's family of files, and what VTK reads besides: XDMF, Exodus, EnSight, CGNS."""

from __future__ import annotations

from typing import ClassVar

from calm_pde.data.readers.simulations.frames import Choice
from calm_pde.data.readers.simulations.samples import FRAMES, STEPS, SampleFiles, sample_files
from calm_pde.data.readers.simulations.simulation import Simulation
from calm_pde.data.readers.simulations.tables import SampleTable


class VTKFiles(Simulation):
    """Simulations as .vtu, .vtk, .vtp, .pvd, .vtkhdf, .xdmf, Exodus, EnSight or CGNS files, in a folder per sample.

    Or in one folder: a file per sample, or frames as name_0000.vtu, name_0001.vtu, …. A table samples.csv beside them gives
    parameters, signals.csv in each folder what is known in time. Needs the extra `mesh`.
    """

    endings: ClassVar[tuple[str, ...]] = (*FRAMES, *STEPS)
    """Of the files that it reads."""

    cells: bool = False
    """Read the values of cells, at their centers, instead of those of points."""
    pattern: str = ""
    """Which files to look at in each folder, like '*.vtu'; by default all of known endings."""

    @property
    def choice(self) -> Choice:
        return Choice(cells=self.cells, region=self.region)

    def samples(self) -> tuple[list[SampleFiles], SampleTable | None]:
        return sample_files(self.path, self.pattern)
