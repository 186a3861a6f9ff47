"""The page: template, style and script of `page/` with the content in them, as one HTML file."""

from __future__ import annotations

import html
import json
import re
from importlib import resources
from pathlib import Path
from typing import Any

from calm_pde.files.folders import replace_file

_MARKUP = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


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
