"""OpenFOAM cases, serial and decomposed."""

from __future__ import annotations

from pathlib import Path

from calm_pde.data.readers.base import existing_folder, in_order
from calm_pde.data.readers.simulations.frames import Choice
from calm_pde.data.readers.simulations.samples import SIGNALS, TABLE, SampleFiles, matched, nothing
from calm_pde.data.readers.simulations.simulation import Simulation
from calm_pde.data.readers.simulations.tables import SampleTable, read_samples

_MESH = Path("constant") / "polyMesh"


class OpenFOAM(Simulation):
    """OpenFOAM cases, one or a folder of them, serial or decomposed: values at the centers of cells.

    A table samples.csv beside them gives parameters, signals.csv in each case what is known in time. Needs the extra `mesh`.
    """

    patches: bool = False
    """Take the faces of the boundary as points too, with node types named by their patches."""
    decomposed: bool | None = None
    """Read the folders processor0, processor1, …; by default where they have more times than the case itself."""

    @classmethod
    def takes(cls, path: Path) -> bool:
        """Whether a folder is a case, or holds some."""
        return path.is_dir() and any(_is_case(folder) for folder in (path, *path.glob("*")))

    @property
    def choice(self) -> Choice:
        return Choice(foam=True, cells=True, patches=self.patches, region=self.region)

    def samples(self) -> tuple[list[SampleFiles], SampleTable | None]:
        root = existing_folder(self.path, "the case, or one case per sample")
        if _is_case(root):
            return [self._sample(root)], None
        cases = {case.name: self._sample(case) for case in in_order(root.iterdir()) if case.is_dir() and _is_case(case)}
        if not cases:
            raise nothing(root, f"OpenFOAM case with {_MESH}")
        table = read_samples(root / TABLE) if (root / TABLE).is_file() else None
        return matched(root, cases, table), table

    def _sample(self, case: Path) -> SampleFiles:
        parts = _processors(case)
        serial = (case / _MESH).is_dir() and not self.decomposed
        if parts and self.decomposed is None and serial:
            serial = _num_times(case) >= _num_times(parts[0])
        return SampleFiles(case.name, (case,) if serial or not parts else tuple(parts), signals=case / SIGNALS)


def _is_case(case: Path) -> bool:
    """Whether a folder is a case."""
    return (case / _MESH).is_dir() or bool(_processors(case))


def _processors(case: Path) -> list[Path]:
    return [part for part in in_order(case.glob("processor*")) if part.name[9:].isdigit() and (part / _MESH).is_dir()]


def _num_times(case: Path) -> int:
    """Folders that are named by a number."""
    return sum(1 for folder in case.iterdir() if folder.is_dir() and _is_number(folder.name))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
