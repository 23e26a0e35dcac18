"""Scenes: what tests of modules do with either library, and how what they see is compared.

A scene is a function of the library; it notes what it sees, and both notes must be equal. A call that raises is noted
by its class and the first line of its message.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import core  # noqa: E402


def said(value: Any) -> Any:
    """What can be compared between the libraries."""
    if type(value).__name__ in ("Tensor", "Parameter") and hasattr(value, "detach"):
        return type(value).__name__, value.detach().tolist(), str(value.dtype).split(".")[-1], value.requires_grad
    if isinstance(value, dict):
        return {str(k): said(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [said(v) for v in value]
    if isinstance(value, type):
        return value.__name__
    text = re.sub(r"0x[0-9a-f]+", "0x", str(value))
    text = text.replace("torch Tensor", "core Tensor").split(" Please file an issue")[0].split(" Open an issue")[0]
    text = re.sub(r"torch\.(\w+\.)*(?=\w)|core\.(\w+\.)*(?=\w)", "", text)
    return text.split("\n  op:")[0]


def tried(f: Callable[[], Any]) -> Any:
    """What a call gives, or how it ends."""
    try:
        return said(f())
    except Exception as e:
        return type(e).__name__, said(str(e).split("\n")[0] if not isinstance(e, KeyError) else repr(e.args[0]))


def owner(n: Any, lib: Any) -> Any:
    """A module with one of everything."""
    m = n.Module()
    m.w = n.Parameter(lib.ones(2))
    m.none = None
    m.register_parameter("absent", None)
    m.register_buffer("seen", lib.zeros(1))
    m.register_buffer("cache", lib.ones(1), persistent=False)
    m.register_buffer("empty", None)
    m.inner = n.Sequential(n.Linear(1, 1), n.BatchNorm1d(1))
    m.again = m.inner[0]
    m.add_module("nothing", None)
    with lib.no_grad():
        for p in m.parameters():
            p.fill_(0.5)
    return m


def differences(scene: Callable[[Any, Any], Iterator[Any]]) -> str:
    """What a scene notes here and in PyTorch, where it differs."""
    mine, theirs = (list(map(said, scene(lib, lib.nn))) for lib in (core, torch))
    wrong = [(i, a, b) for i, (a, b) in enumerate(zip(mine, theirs, strict=True)) if a != b]
    return "\n".join(f"{i}: here {a}\n{' ' * len(str(i))}  PyTorch {b}" for i, a, b in wrong[:40])
