"""The variants: how each is made of a copy of a model, and the code that makes it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import core
from core.ao import quantization

from .samples import Samples

CALIBRATION = 256
"""Items of the data from which int8 static takes its scales, at most."""


@dataclass
class Made:
    """A variant: the model, what its inputs are brought into, and the code that makes it."""

    model: Any
    cast: Callable[[Any], Any]
    code: str = ""
    note: str = ""


@dataclass(frozen=True)
class Recipe:
    """How a variant is made; `key` is its name in a command."""

    key: str
    name: str
    build: Callable[[Any, Samples], Any]
    """Gives the model, made of a copy that may be changed."""
    code: str
    """What the user writes, with {model} and {data} for the names of these."""
    halves: bool = False
    """Whether floating inputs are in bfloat16."""
    note: str = ""
    core_only: bool = True

    def made(self, reference: Any, samples: Samples, library: Any, title: str, data: str) -> Made:
        """Make the variant. *Raises*: whatever says why it cannot be made."""
        if self.core_only and library is not core:
            raise TypeError("variants of whole numbers and pruned ones are made of models of core; came: a model of "
                            "PyTorch; remedy: the same code with import core as torch")  # fmt: skip
        model = self.build(copy.deepcopy(reference), samples)
        return Made(model, _to_halves(library) if self.halves else lambda x: x,
                    self.code.format(model=title, data=data, library="core" if library is core else "torch"),
                    self.note)  # fmt: skip


def _to_halves(library: Any) -> Callable[[Any], Any]:
    def cast(x: Any) -> Any:
        floating = isinstance(x, library.Tensor) and x.is_floating_point()
        return x.to(library.bfloat16) if floating else x

    return cast


def refusal_of(error: BaseException) -> tuple[str, str]:
    """Return what an error says, and its remedy.

    >>> refusal_of(ValueError("no such op\\n  op: sort; remedy: numpy"))
    ('no such op; op: sort', 'numpy')
    """
    said, _, remedy = (str(error) or type(error).__name__).partition("remedy: ")
    said = "; ".join(line.strip().rstrip(";") for line in said.splitlines() if line.strip()).rstrip("; ")
    known = type(error) in (TypeError, ValueError, RuntimeError) or type(error).__module__.startswith("core.")
    return said if known else f"{type(error).__name__}: {said}", " ".join(remedy.split())


# -- how they are made -------------------------------------------------------------------------------------------------

_HEAD = "import copy\n\nimport core\n"
_COPY = "small = copy.deepcopy({model}).eval()\n"


def _quantised(config: Callable[[], Any]) -> Callable[[Any, Samples], Any]:
    def build(model: Any, samples: Samples) -> Any:
        core.quantize_(model, config())
        return model

    return build


def _quantised_code(config: str) -> str:
    name = config.partition("(")[0]
    return f"{_HEAD}from core.ao.quantization import {name}\n\n{_COPY}core.quantize_(small, {config})\n"


def _halved(model: Any, samples: Samples) -> Any:
    return model.bfloat16()


RECIPES = [
    Recipe("float32", "float32", lambda model, samples: model, "", core_only=False),
    Recipe("bf16", "bf16", _halved, "import copy\n\n" + _COPY.replace(".eval()", ".eval().bfloat16()")
           + "# its floating inputs too: small(x.bfloat16())\n", halves=True, core_only=False),
    Recipe("int8-weight", "int8 weight-only", _quantised(lambda: quantization.Int8WeightOnlyConfig()),
           _quantised_code("Int8WeightOnlyConfig()")),
    Recipe("int8-dynamic", "int8 dynamic",
           _quantised(lambda: quantization.Int8DynamicActivationInt8WeightConfig()),
           _quantised_code("Int8DynamicActivationInt8WeightConfig()")),
    Recipe("int4", "int4", _quantised(lambda: quantization.Int4WeightOnlyConfig(group_size=32)),
           _quantised_code("Int4WeightOnlyConfig(group_size=32)")),
]  # fmt: skip
"""In the order of the table."""
