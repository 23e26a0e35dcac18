"""The rows: what is compared, with what settings, from the text files beside this one; and PyTorch's own lists."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

HERE = Path(__file__).parent
KINDS = ("layers", "optimizers", "schedulers")


@dataclass(frozen=True)
class Row:
    """One class with one set of arguments."""

    kind: str
    text: str  # the constructor's call
    inputs: str = ""
    random: bool = False  # compared in evaluation mode alone
    rough: bool = False  # sums of bfloat16, or steps that amplify rounding: losses agree to half a percent
    wrong: bool = False  # PyTorch's gradient fails its own gradcheck: outputs alone are compared

    @property
    def name(self) -> str:
        return self.text.partition("(")[0]


def _lines(name: str) -> list[str]:
    return [s for s in (HERE / name).read_text().splitlines() if s.strip() and not s.startswith("#")]


def rows(kind: str) -> list[Row]:
    """All rows of a kind."""
    found = []
    for line in _lines(f"{kind}.txt"):
        mark, _, rest = line.partition(" ") if line[1:2] == " " else ("", "", line)
        text, _, inputs = rest.partition(" : ")
        found.append(Row(kind, text, inputs, mark == "*", mark == "~", mark == "!"))
    return found


def left_out() -> dict[str, str]:
    """Names that have no rows, with the reason."""
    reason, found = "", {}
    for line in (HERE / "left_out.txt").read_text().splitlines():
        if line.startswith("#"):
            reason = line.lstrip("# ")
        else:
            found.update(dict.fromkeys(line.split(), reason))
    return found


def public(kind: str) -> list[str]:
    """The classes of a kind that PyTorch makes public."""
    if kind == "layers":
        return sorted(torch.nn.modules.__all__)
    if kind == "schedulers":
        return sorted([*torch.optim.lr_scheduler.__all__, "SWALR"])
    return sorted(n for n in torch.optim.__all__ if isinstance(getattr(torch.optim, n), type))
