"""A report as one HTML file: template, style and script of `page/` with the content in them."""

from __future__ import annotations

import html
import json
import os
import re
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any

from rich.console import Console

from calm_pde.data.storage import DataFile
from calm_pde.errors import InputError
from calm_pde.files.atomic import check_free
from calm_pde.files.folders import make_folder, replace_file
from calm_pde.metrics.scores import Evaluation
from calm_pde.progress import console_of, progress
from calm_pde.report.content import LIMIT, content
from calm_pde.report.figures import figure_inputs, write_figures
from calm_pde.report.findings import Findings
from calm_pde.surrogate.surrogate import Surrogate

_MARKUP = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


@dataclass(frozen=True, repr=False)
class Report:
    """A report that was written; it stands wherever the path of a file is asked for.

    Args:
        size: in bytes.
        held: how many trajectories can be looked at in it, of `total`.
        evaluation: the errors that it shows.
        figures: files for papers, where they were asked for.
    """

    path: Path
    size: int
    held: int
    total: int
    evaluation: Evaluation
    figures: tuple[Path, ...] = ()

    def __fspath__(self) -> str:
        return str(self.path)

    def __str__(self) -> str:
        return f"{self.path} ({self.size / 1e6:.1f} MB, {self.held} of {self.total} trajectories)"

    def __repr__(self) -> str:
        return f"Report({self.path}: {self.size / 1e6:.1f} MB, {self.held} of {self.total} trajectories)"


def write_report(
    run: Surrogate | str | os.PathLike[str] | Findings,
    out: str | os.PathLike[str] | None = None,
    *,
    data: DataFile | str | os.PathLike[str] | None = None,
    split: str = "test",
    samples: int | None = None,
    figures: str | os.PathLike[str] | None = None,
    console: Console | None = None,
) -> Report:
    """Write one HTML file to look at: truth, prediction and error on the mesh, errors, training, and what the model learned.

    Args:
        run: the folder of a run or of a surrogate; a surrogate, of whose training there are no curves then; or what was found
            of one of these, which tells data and split itself.
        out: the file to write; by default report.html in the folder, so a surrogate that is in none needs one.
        data: the data file; by default the one it was trained on.
        samples: how many trajectories to hold; by default worst, median, best and as many more as fit in 8 MB.
        figures: also write the figures for papers (PNG and PDF) and an animation to this folder.
        console: where to tell of the progress; by default nothing is said.
    """
    console = console_of(console)
    path = _beside(run) if out is None else Path(out)
    check_free([] if out is None else [path], overwrite=True)
    folder = None if figures is None else Path(figures)
    if folder is not None:
        make_folder(folder)
    findings = run if isinstance(run, Findings) else _found(run, data, split, console)
    with progress("report", console) as show:
        found = content(findings, samples=samples, room=LIMIT - page_size(), progress=show)
    report = Report(path, write_page(found, path), len(found["samples"]), len(findings.ranked), findings.evaluation)
    console.print(f"Open the report in a browser: {report}", highlight=False, soft_wrap=True)
    if folder is None:
        return report
    with progress("figures", console) as show:
        written = write_figures(figure_inputs(findings), folder, progress=show)
    console.print(f"{len(written)} figures are in {folder}", highlight=False, soft_wrap=True)
    return replace(report, figures=tuple(written))


def _beside(run: Surrogate | str | os.PathLike[str] | Findings) -> Path:
    """Where a report goes that nobody chose a place for."""
    folder = run.run if isinstance(run, Findings) else run
    if folder is None or isinstance(folder, Surrogate):
        raise InputError(
            "out",
            expected="the file to write, since a surrogate that is no folder has no place for it",
            got="none",
            fix='Name one, as out="report.html".',
        )
    return Path(folder) / "report.html"


def _found(
    run: Surrogate | str | os.PathLike[str], data: DataFile | str | os.PathLike[str] | None, split: str, console: Console
) -> Findings:
    with progress("evaluate", console) as show:
        return Findings(run, data, split, show)


def write_page(content: dict[str, Any], out: Path) -> int:
    """Write the report; the size of the file in bytes."""
    text = page(content).encode()
    replace_file(out, text)
    return len(text)


def page(content: dict[str, Any]) -> str:
    """No text of the content can end its script or become markup: it stands there as JSON without any."""
    plain = json.dumps(content, ensure_ascii=False, allow_nan=False)
    parts = {
        "title": html.escape(str(content["title"])),
        "style": _asset("page.css"),
        "script": _asset("page.js"),
        "content": re.sub(f"[{''.join(_MARKUP)}]", lambda found: _MARKUP[found[0]], plain),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], _asset("page.html"))


def page_size() -> int:
    """Bytes of a report without content."""
    return sum(len(_asset(name)) for name in ("page.html", "page.css", "page.js"))


def _asset(name: str) -> str:
    return (resources.files("calm_pde.report") / "page" / name).read_text(encoding="utf-8")
