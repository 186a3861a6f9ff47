"""HDF5 files that lead elsewhere: links and storage outside a file are refused by name, before anything there is opened."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py

from calm_pde.errors import FileError

_FIX = "Only what is in the file itself is read; copy there what it leads to."


def own(path: Path, group: h5py.Group, name: str) -> Any:
    """The group or dataset of a name, stored in this very file; None where there is none."""
    found: Any = group
    for step in filter(None, name.split("/")):
        link = found.get(step, getlink=True) if isinstance(found, h5py.Group) else None
        if link is None:
            return None
        if not isinstance(link, h5py.HardLink):
            raise FileError(path, f"is {_words(link)}", part=name, fix=_FIX)
        found = found[step]
    if isinstance(found, h5py.Dataset) and found.is_virtual:
        raise FileError(path, "is a virtual dataset, made of others", part=name, fix=_FIX)
    if isinstance(found, h5py.Dataset) and found.external:
        raise FileError(path, f"has its numbers outside, in {_text(found.external[0][0])}", part=name, fix=_FIX)
    return found


def _words(link: Any) -> str:
    if isinstance(link, h5py.ExternalLink):
        return f"an external link to {link.path} in {link.filename}"
    return f"a soft link to {link.path}"


def _text(name: str | bytes) -> str:
    return name if isinstance(name, str) else name.decode(errors="replace")
