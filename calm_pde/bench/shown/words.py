"""Texts in Markdown, whatever they hold."""

from __future__ import annotations

import re


def plain(text: str) -> str:
    """Markdown in which the text stands as it is."""
    return re.sub(r"([\\`*_\[\]<>|#])", r"\\\1", " ".join(text.split()))
