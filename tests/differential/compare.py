"""How two observations of one program differ."""

from __future__ import annotations

import re
from typing import Any

UNSEEN = "no observation"
LEFT_OUT = {"ops"}
PRINTED = ("stdout", "stderr")
_UNIT = r" ?([nmuμµ]?s|min|h)\b"
_NUMBER = re.compile(rf"\d+(\.\d+)?(e[+-]?\d+)?({_UNIT})?")
_TIME = re.compile(rf"\d+(\.\d+)?(e[+-]?\d+)?{_UNIT}")
_CLOCK = re.compile(r"\d{10}(\.\d+)?")  # seconds since 1970, of which programs make names of files


def flat(observation: Any, path: str = "") -> dict[str, Any]:
    """Nested values as one level, by their path.

    >>> flat({"a": [1, {"b": 2}]})
    {'a/0': 1, 'a/1/b': 2, 'a/#': 2}
    """
    if isinstance(observation, dict):
        parts, more = observation.items(), {}
    elif isinstance(observation, list):
        parts, more = enumerate(observation), {f"{path}#": len(observation)}
    else:
        return {path.rstrip("/"): observation}
    found: dict[str, Any] = {}
    for key, inner in parts:
        found |= flat(inner, f"{path}{key}/")
    return found | more


def unsteady(first: dict[str, Any], second: dict[str, Any]) -> set[str]:
    """The paths at which two plain runs differ."""
    one, two = flat(first), flat(second)
    return {path for path in one.keys() | two.keys() if one.get(path) != two.get(path)}


def differences(
    plain: dict[str, Any], recorded: dict[str, Any], loose: set[str], parts: tuple[str, ...] = ()
) -> list[str]:
    """Return what a recorded run shows that a plain one does not, or otherwise.

    Paths in `loose` are only matched in form, and so are other printed lines of such a form: one that prints a short
    time may show the same digits twice. Printed times with their unit are left out, and clocks in names of files.
    """
    if "harness" in plain or "harness" in recorded:
        return [f"the harness failed: {plain.get('harness')} / {recorded.get('harness')}"]
    for told in (plain, recorded):
        if str(told.get("status", "")).startswith(UNSEEN):
            return [f"{told['status']}: {told['stderr']}"]
    one, two = _timeless(flat(plain)), _timeless(flat(recorded))
    loose = {_path(path) for path in loose}
    printed = {_form(one[path]) for path in loose & one.keys() if path.startswith(PRINTED)}
    found = []
    for path in sorted(one.keys() | two.keys()):
        part = path.partition("/")[0]
        if part in LEFT_OUT or (parts and part not in parts):
            continue
        a, b = one.get(path, "(nothing)"), two.get(path, "(nothing)")
        if a == b or (path in loose and _form(a) == _form(b)) or (path in loose and part not in PRINTED):
            continue
        if part in PRINTED and _form(a) == _form(b) and _form(a) in printed:
            continue
        found.append(f"{path}: plain {a!r}, recorded {b!r}")
    return found


def _timeless(told: dict[str, Any]) -> dict[str, Any]:
    """Take out what a clock has told: of printed lines the times, of files' names the seconds since 1970."""
    return {_path(path): _TIME.sub("#", str(value)) if path.startswith(PRINTED) else value
            for path, value in told.items()}  # fmt: skip


def _path(path: str) -> str:
    return _CLOCK.sub("#", path) if path.startswith("files/") else path


def _form(text: Any) -> str:
    """A line with its numbers taken out, and their units of time."""
    return _NUMBER.sub("#", str(text))
