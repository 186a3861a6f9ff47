"""A process that reads files for this one: a damaged file may end it, or keep it forever, and never the program."""

from __future__ import annotations

import importlib.util
import json
import math
import signal
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import numpy as np

from calm_pde.errors import FileError

_PROGRAM = Path(__file__).with_name("child.py")
_TYPES = ("<f4", "<f8", "<i8", "|u1")
_LONGEST_LINE, _LONGEST_REASON = 64 * 2**20, 300
_LAST_SECONDS = 5.0  # for a process that said its last word to end
_FIX = "Write the file anew, or take the sample out."


def check_installed(path: Path) -> None:
    """The reading needs pyvista; it is not loaded here."""
    if importlib.util.find_spec("pyvista") is None:
        fix = "Install it with: pip install 'calm-pde[mesh]'"
        raise FileError(path, "reading the files of simulations needs the extra `mesh`", fix=fix)


class ReadingProcess:
    """One process that answers one question after the other, and is begun anew after a file has ended it.

    Args:
        patience: seconds after which a file that is still being read counts as damaged.
    """

    def __init__(self, patience: float) -> None:
        self.patience = patience
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> ReadingProcess:
        return self

    def __del__(self) -> None:
        self.close()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def close(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    with suppress(OSError):  # what was not read by a process that is gone
                        pipe.close()
            process.wait()
            self._said.close()

    def ask(self, path: Path, part: str, request: dict[str, Any]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Facts and arrays; what goes wrong is said of `path` and the `part` of it."""
        process = self._started()
        late = threading.Event()
        alarm = threading.Timer(self.patience, lambda: (late.set(), process.kill()))
        alarm.start()
        try:
            if process.stdin is None or process.stdout is None:
                raise FileError(path, "there is no pipe to the process that reads", part=part)
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.flush()
            return _answer(process.stdout, path, part)
        except (OSError, EOFError, ValueError, TypeError, KeyError, MemoryError, OverflowError) as error:
            if isinstance(error, FileError):
                raise
            alarm.cancel()
            problem = self._ended(process, late.is_set(), error)
            self.close()
            raise FileError(path, problem, part=part, fix=_FIX) from None
        finally:
            alarm.cancel()

    def _ended(self, process: subprocess.Popen[bytes], late: bool, error: Exception) -> str:
        """Why there is no answer."""
        if late:
            return f"was still being read after {self.patience:g} s (--patience), and so is given up"
        if not isinstance(error, EOFError | BrokenPipeError):
            return f"gave an answer that makes no sense ({error})"
        try:
            code = process.wait(_LAST_SECONDS)
        except subprocess.TimeoutExpired:
            return "is damaged: the process that read it fell silent"
        names = {-number: number.name for number in signal.Signals}
        self._said.seek(0)
        said = " ".join(self._said.read().decode(errors="replace").split())[-_LONGEST_REASON:]
        how = names.get(code, f"exit code {code}")
        return f"is damaged: reading it ended the process that did so ({how}{f': {said}' if said else ''})"

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None or not self.running:
            self.close()
            command = [sys.executable, "-P", str(_PROGRAM)]  # -P: names beside the program are no modules for it
            self._said = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the process
            pipe = subprocess.PIPE
            self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=self._said)
        return self._process


def _answer(pipe: IO[bytes], path: Path, part: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    line = pipe.readline(_LONGEST_LINE)
    if not line.endswith(b"\n"):
        raise EOFError
    head = json.loads(line)
    if "refusal" in head:
        raise FileError(path, f"cannot be read ({str(head['refusal']).strip().rstrip('.')})", part=part, fix=_FIX)
    arrays = {}
    for name, kind, shape in head["arrays"]:
        if kind not in _TYPES or not all(isinstance(length, int) and length >= 0 for length in shape):
            raise ValueError(f"an array of {kind} with shape {shape}")
        raw = pipe.read(math.prod(shape) * np.dtype(kind).itemsize)
        if len(raw) != math.prod(shape) * np.dtype(kind).itemsize:
            raise EOFError
        arrays[str(name)] = np.frombuffer(raw, dtype=kind).reshape(shape)
    return head["facts"], arrays
