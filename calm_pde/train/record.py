"""What a run writes down while it goes: metrics as JSON lines, cut back to the checkpoint on resume."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from calm_pde.errors import FileError
from calm_pde.folders import replace_file


class Record:
    """RUN/metrics.jsonl: one line per step and one per epoch, each with its step."""

    def __init__(self, path: Path, step: int) -> None:
        """Open for more, without what an interrupted run wrote after `step`."""
        self.path = path
        kept = [line for line in read_record(path) if line["step"] <= step] if path.exists() else []
        replace_file(path, "".join(json.dumps(line) + "\n" for line in kept).encode())

    def add(self, **entry: Any) -> None:
        try:
            handle = os.open(self.path, os.O_WRONLY | os.O_APPEND)
            try:
                os.write(handle, (json.dumps(entry) + "\n").encode())
            finally:
                os.close(handle)
        except OSError as error:
            raise FileError(self.path, f"cannot be written: {error}", fix="The last checkpoint is untouched.") from error


def read_record(path: Path) -> list[dict[str, Any]]:
    """All whole lines; a killed run may have left half of one."""
    found = []
    for line in path.read_text().splitlines():
        try:
            found.append(json.loads(line))
        except json.JSONDecodeError:
            break
    return found
