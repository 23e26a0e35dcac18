"""The table: the catalogue's names, each with the calls that are compared, from the text files beside this one."""

from __future__ import annotations

import fnmatch
import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

AVX2 = "AVX2 "
HERE = Path(__file__).parent
NAMESPACES = {
    "torch": "",
    "torch.Tensor": "Tensor",
    "torch.linalg": "linalg",
    "torch.fft": "fft",
    "torch.special": "special",
    "torch.nn.functional": "nn.functional",
}
# Documented, though their kind (a class) or an empty docstring hides it.
ALSO = ("torch.no_grad", "torch.enable_grad", "torch.inference_mode", "torch.set_grad_enabled")
# Where the calls of a function without calls of its own are looked for.
ELSEWHERE = ("torch", "torch.nn.functional", "torch.special", "torch.linalg")


def holder(lib: Any, namespace: str) -> Any:
    """The module or class of a namespace in a library; None if there is none."""
    for part in filter(None, NAMESPACES[namespace].split(".")):
        lib = getattr(lib, part, None)
    return lib


def written(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """An in-place function, run on a copy of its first argument, which it must give back."""

    def run(a: Any, *rest: Any, **keywords: Any) -> Any:
        target = a.clone()
        result = function(target, *rest, **keywords)
        assert result is target, f"{name} returned another tensor"
        return result

    return run


@dataclass(frozen=True)
class Row:
    """A function of the catalogue and the calls that compare it."""

    namespace: str
    short: str
    calls: tuple[str, ...]
    flags: str
    borrowed: bool  # the calls are those of the same function elsewhere

    @property
    def name(self) -> str:
        return f"{self.namespace}.{self.short}"

    def there(self, lib: Any) -> bool:
        """Whether a library has the function."""
        return hasattr(holder(lib, self.namespace), self.short)

    def function(self, lib: Any) -> Callable[..., Any]:
        """The function as the calls name it: methods and in-place forms take their tensor first."""
        owner, short = holder(lib, self.namespace), self.short
        if self.namespace != "torch.Tensor":
            f = getattr(owner, short)
            return written(f, short) if short.endswith("_") else f

        def method(a: Any, *rest: Any, **keywords: Any) -> Any:
            return getattr(a, short)(*rest, **keywords)

        return written(method, short) if short.endswith("_") else method


def lines(path: Path) -> list[str]:
    """A text file's lines without comments and blanks."""
    return [s for s in path.read_text().splitlines() if s.strip() and not s.startswith("#")]


@functools.cache
def functions() -> tuple[str, ...]:
    """The catalogue: every function's full name."""
    return tuple(lines(HERE / "functions.txt"))


@functools.cache
def exclusions() -> dict[str, str]:
    """Patterns of names that are left out, with the reason."""
    reason, found = "", {}
    for line in (HERE / "exclusions.txt").read_text().splitlines():
        if line.startswith("#"):
            reason = line.lstrip("# ")
        else:
            for pattern in line.split():
                found[pattern] = reason
    return found


def known() -> dict[str, str]:
    """Known differences on this processor: name and reason."""
    found = dict(line.split(": ", 1) for line in lines(HERE / "known.txt") if not line.startswith(AVX2))
    return found | by_processor()


def by_processor() -> dict[str, str]:
    """Those of PyTorch's own, between its vector loops and its scalar ones, that this processor shows."""
    import torch

    if torch.backends.cpu.get_cpu_capability() == "AVX512":
        return {}
    return dict(line.removeprefix(AVX2).split(": ", 1) for line in lines(HERE / "known.txt") if line.startswith(AVX2))


def documented() -> set[str]:
    """What this PyTorch documents: the public functions with a docstring, by full name."""
    import torch

    found = set(ALSO)
    for namespace in NAMESPACES:
        owner = holder(torch, namespace)
        for name in dir(owner):
            f = getattr(owner, name)
            text = getattr(f, "__doc__", None) or ""
            module = getattr(f, "__module__", None) or "torch"
            usable = callable(f) if namespace != "torch.Tensor" else True
            if (
                not name.startswith("_")
                and usable
                and not isinstance(f, type)
                and len(text) > 20
                and "typing" not in module
            ):
                found.add(f"{namespace}.{name}")
    return found


def matches(name: str, pattern: str) -> bool:
    return fnmatch.fnmatchcase(name, pattern)


def excluded(name: str) -> str | None:
    """Why a name is left out; None if it is not."""
    for pattern, reason in exclusions().items():
        if matches(name, pattern):
            return reason
    return None


def call(text: str, whole: bool) -> str:
    """The expression of a call: the arguments of `F`, unless it names `F` itself or its line starts with ``=``."""
    text = text.lstrip("= ").strip()
    return text if whole or "F(" in text else f"F({text})"


@functools.cache
def texts() -> dict[str, tuple[str, tuple[str, ...]]]:
    """By full name, the flags and calls that the row files give."""
    found: dict[str, tuple[str, tuple[str, ...]]] = {}
    for path in sorted((HERE / "rows").glob("*.txt")):
        namespace = "torch." + path.stem if path.stem != "torch" else "torch"
        for line in lines(path):
            head, _, calls = line.partition(": ")
            names, _, flags = head.partition(" ")
            for short in names.split(","):
                made = tuple(call(c, calls.startswith("=")) for c in calls.split(" ; "))
                before, others = found.get(f"{namespace}.{short}", ("", ()))
                found[f"{namespace}.{short}"] = before + flags, others + made
    return found


def row(name: str) -> Row:
    """The row of a function: its own calls, or those of the function of the same name elsewhere."""
    namespace, _, short = name.rpartition(".")
    known_texts = texts()
    tries = [(namespace, short)]
    plain = short.rstrip("_")
    tries += [(n, s) for s in dict.fromkeys((short, plain)) for n in (namespace, *ELSEWHERE)]
    for n, s in tries:
        if f"{n}.{s}" in known_texts:
            flags, calls = known_texts[f"{n}.{s}"]
            return Row(namespace, short, calls, flags, (n, s) != (namespace, short))
    raise KeyError(f"no calls for {name}: give it a line in rows/")


def rows() -> list[Row]:
    return [row(name) for name in functions()]
