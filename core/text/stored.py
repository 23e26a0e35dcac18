"""Tokenizers as JSON files: written whole or not at all, and read with an error that names file and fault."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from ..base.errors import text


def write(path: str | os.PathLike[str], kind: str, content: dict[str, Any]) -> None:
    """Write `content` as a file of that kind; whoever reads meanwhile sees the old one or the new one, never half."""
    path = Path(path)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        beside.write_text(json.dumps({"kind": kind, "version": 1, **content}, ensure_ascii=True, indent=0), "utf-8")
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


def read(path: str | os.PathLike[str], kind: str, needed: dict[str, type]) -> dict[str, Any]:
    """Return what `write` wrote.

    *Raises*: ValueError when it is something else.
    """
    try:
        content = json.loads(Path(path).read_text("utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(text(f"{path} is no tokenizer", op=kind, came=str(error), needed="a file of save()")) from None
    if not isinstance(content, dict) or content.get("kind") != kind:
        came = content.get("kind", "JSON of another kind") if isinstance(content, dict) else type(content).__name__
        raise ValueError(text(f"{path} holds no {kind}", op=kind, came=str(came), needed="a file of save()"))
    for name, wanted in needed.items():
        if not isinstance(content.get(name), wanted):
            raise ValueError(text(f"{path} is broken: its {name!r} is no {wanted.__name__}", op=kind,
                                  came=type(content.get(name)).__name__))  # fmt: skip
    return content
