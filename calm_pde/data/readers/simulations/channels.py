"""Which numbers of the files become the channels of a data set, by name; vectors by their components."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from calm_pde.config import suggestion
from calm_pde.errors import FileError

NODE_TYPE = "node_type"
_SUFFIXES = {2: "xy", 3: "xyz", 6: ("xx", "yy", "zz", "xy", "yz", "xz"), 9: [a + b for a in "xyz" for b in "xyz"]}
_BOOKKEEPING = ("vtk", "TimeValue", "ObjectId", "Global", "Pedigree")  # how names begin that are no physics


class Offered(NamedTuple):
    """An array of a file: its shape and type of numbers."""

    shape: tuple[int, ...]
    kind: str

    @property
    def width(self) -> int:
        return self.shape[1] if len(self.shape) > 1 else 1


class Channel(NamedTuple):
    """A name, and where its numbers are."""

    name: str
    array: str
    component: int

    def of(self, values: Mapping[str, np.ndarray]) -> np.ndarray:
        """Its numbers (point,)."""
        found = values[self.array]
        return found if found.ndim == 1 else found[:, self.component]


@dataclass(frozen=True)
class Channels:
    """What is read; and components of vectors across the plane of the points, which are left out and must be zero."""

    read: tuple[Channel, ...] = ()
    across: tuple[Channel, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(channel.name for channel in self.read)

    @property
    def arrays(self) -> list[str]:
        """Names in the files."""
        return list(dict.fromkeys(channel.array for channel in (*self.read, *self.across)))


def physics(offered: Mapping[str, Offered]) -> list[str]:
    """Arrays of real numbers; numbers of points, blocks and the like are left out."""
    found = (name for name, array in offered.items() if array.kind.startswith("f"))
    return [name for name in found if name != NODE_TYPE and not name.startswith(_BOOKKEEPING)]


def channels_of(path: Path, part: str, offered: Mapping[str, Offered], wanted: Sequence[str], axes: Sequence[int]) -> Channels:
    """The channels with these names, of arrays or of single components.

    Args:
        part: what to call the place in messages.
        axes: of space, those along which there are points; a vector that is named as a whole keeps its components along these.
    """
    known = {name: _components(name, array) for name, array in offered.items()}
    single = {channel.name: channel for channels in known.values() for channel in channels}
    read: list[Channel] = []
    across: list[Channel] = []
    for name in wanted:
        if name in known:
            vector = offered[name].width == 3
            read += [channel for channel in known[name] if not vector or channel.component in axes]
            across += [channel for channel in known[name] if vector and channel.component not in axes]
        elif name in single:
            read.append(single[name])
        else:
            fix = suggestion(name, [*known, *single]) if known else "There are no fields at all."
            raise FileError(path, "is not there", part=f"{part}, field {name!r}", fix=fix)
    read = list(dict.fromkeys(read))
    return Channels(tuple(read), tuple(channel for channel in dict.fromkeys(across) if channel not in read))


def _components(name: str, array: Offered) -> list[Channel]:
    if array.width == 1:
        return [Channel(name, name, 0)]
    suffixes = _SUFFIXES.get(array.width, [str(place) for place in range(array.width)])
    return [Channel(f"{name}_{suffix}", name, place) for place, suffix in enumerate(suffixes)]
