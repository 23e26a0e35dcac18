"""The errors, in one tree, and the form of their texts.

Errors keep PyTorch's class and key phrase, so that a search for the message still finds its answers; our lines follow:
what came, what was needed, the remedy.

    Exception
    ├── RuntimeError     shapes, devices, autograd misuse
    │   └── LoadError    a file that core.load cannot or will not read (an UnpicklingError too, as PyTorch's is)
    ├── TypeError        an argument of the wrong type
    ├── ValueError       an argument of the right type and a wrong value
    ├── IndexError       a dimension or an index out of range
    └── NotImplementedError
        └── OpNotDifferentiable   a gradient was asked of an op that has none
"""

from __future__ import annotations

from pickle import UnpicklingError


class OpNotDifferentiable(NotImplementedError):
    """A derivative was asked of an op that has none."""


class LoadError(RuntimeError, UnpicklingError):
    """A file is broken, or holds what `core.load` refuses to make."""


def truth(op: str, name: str, value: object, position: int = 1) -> None:
    """TypeError for what is no truth value, where anything at all would count as one.

    >>> truth("qr", "some", True, 2)
    """
    if not isinstance(value, bool) and type(value).__name__ not in ("bool", "bool_"):  # NumPy's are bool_ and bool
        came = type(value).__name__
        raise TypeError(text(f"{op}(): argument {name!r} (position {position}) must be bool, not {came}", op=op,
                             came=f"{name} = {value!r:.60}", needed="True or False"))  # fmt: skip


def text(phrase: str, *, op: str = "", came: str = "", needed: str = "", remedy: str = "") -> str:
    """PyTorch's phrase, then the op, what came, what was needed and the remedy, each where it is known.

    >>> print(text("mat1 and mat2 shapes cannot be multiplied", op="matmul", came="(2, 3) and (4, 5)", needed="3 == 4"))
    mat1 and mat2 shapes cannot be multiplied
      op: matmul; came: (2, 3) and (4, 5); needed: 3 == 4
    """
    parts = [f"{k}: {v}" for k, v in (("op", op), ("came", came), ("needed", needed), ("remedy", remedy)) if v]
    return phrase + (("\n  " + "; ".join(parts)) if parts else "")
