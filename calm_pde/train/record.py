"""What a run writes down while it goes: metrics as JSON lines, cut back to the checkpoint on resume."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from calm_pde.errors import FileError
from calm_pde.files.atomic import synced
from calm_pde.files.folders import replace_file, write_file


class Record:
    """RUN/metrics.jsonl: one line per step and one per epoch, each with its step; what is not finite is null."""

    def __init__(self, path: Path, step: int) -> None:
        """Open for more, without what an interrupted run wrote after `step`."""
        self.path = path
        kept = [line for line in read_record(path) if line["step"] <= step] if path.exists() else []
        replace_file(path, "".join(json.dumps(line) + "\n" for line in kept).encode())

    def add(self, **entry: Any) -> None:
        finite = {
            name: None if isinstance(value, float) and not math.isfinite(value) else value for name, value in entry.items()
        }
        try:
            write_file(self.path, (json.dumps(finite) + "\n").encode(), append=True, sync=False)
        except OSError as error:
            raise self._unwritten(error) from error

    def sync(self) -> None:
        """Wait until all lines are on the disk."""
        try:
            synced(self.path)
        except OSError as error:
            raise self._unwritten(error) from error

    def _unwritten(self, error: OSError) -> FileError:
        return FileError(self.path, f"cannot be written: {error}", fix="The last checkpoint is untouched.")


def read_record(path: Path) -> list[dict[str, Any]]:
    """All whole lines; a killed run may have left half of one at the end."""
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise FileError(path, f"cannot be read: {error}") from error
    return [_parsed(path, number, line) for number, line in enumerate(lines[:-1], start=1)]


def _parsed(path: Path, number: int, line: bytes) -> dict[str, Any]:
    try:
        found = json.loads(line)
        if isinstance(found, dict) and isinstance(found["step"], int):
            return found
        problem = "it has no step"
    except (ValueError, KeyError, RecursionError) as error:
        problem = repr(error)
    raise FileError(path, f"is damaged ({problem})", part=f"line {number}", fix="Move it away to go on without it.")
