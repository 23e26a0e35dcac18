"""The variants: how each is made of a copy of a model, and the code that makes it."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import core
from core.ao import quantization
from core.nn.utils.shrink import shrink as pruned
from widgets.figures import share

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
    kept: Mapping[str, Mapping[int, Any]] = field(default_factory=dict)
    """Of a pruned one: name of a parameter -> axis -> the indices that stayed."""


@dataclass(frozen=True)
class Recipe:
    """How a variant is made; `key` is its name in a command."""

    key: str
    name: str
    build: Callable[[Any, Samples], Any]
    """Gives the model, made of a copy that may be changed, or a `Made`."""
    code: str
    """What the user writes, with {model}, {data} and {example} for these and for a batch of inputs."""
    halves: bool = False
    """Whether floating inputs are in bfloat16."""
    note: str = ""
    core_only: bool = True

    def made(self, reference: Any, samples: Samples, library: Any, title: str, data: str) -> Made:
        """Make the variant. *Raises*: whatever says why it cannot be made."""
        if self.core_only and library is not core:
            raise TypeError("variants of whole numbers and pruned ones are made of models of core; came: a model of "
                            "PyTorch; remedy: the same code with import core as torch")  # fmt: skip
        built = self.build(copy.deepcopy(reference), samples)
        found = built if isinstance(built, Made) else Made(built, _to_halves(library) if self.halves else lambda x: x)
        found.code = self.code.format(model=title, data=data, example=example_of(data, samples))
        found.note = found.note or self.note
        return found


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


def example_of(data: str, samples: Samples) -> str:
    """Return how the user writes a few of the inputs.

    >>> example_of("(x, y)", Samples()), example_of("loader", Samples(loaded=True)), example_of("test", Samples())
    ('x[:2]', 'next(iter(loader))[0]', 'test[0][:2]')
    """
    if samples.loaded:
        return f"next(iter({data}))" + ("[0]" if not samples.batches or samples.labelled else "")
    try:
        written = ast.parse(data, mode="eval").body
    except SyntaxError:
        return "x"
    if isinstance(written, ast.Tuple) and written.elts and not isinstance(written.elts[0], ast.Tuple):
        return f"{ast.unparse(written.elts[0])}[:2]"
    if isinstance(written, ast.Tuple) and written.elts:
        return f"tuple(part[:2] for part in {ast.unparse(written.elts[0])})"
    return f"{data}[0][:2]" if not samples.batches or samples.labelled else f"{data}[:2]"


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


def _pruned(amount: float) -> Callable[[Any, Samples], Any]:
    def build(model: Any, samples: Samples) -> Any:
        before = sum(p.numel() for p in model.parameters())
        plan = pruned(model, samples.rows(2), amount)
        left = sum(p.numel() for p in model.parameters()) / before
        return Made(model, lambda x: x, note=f"{share(left)} of the parameters", kept=plan.keep)

    return build


_PRUNED_CODE = f"""{_HEAD}from core.nn.utils.shrink import shrink

{_COPY}print(shrink(small, {{example}}, amount=AMOUNT))
# train it for some epochs more: that gives it its accuracy back
"""

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
    *(Recipe(f"pruned-{percent}", f"pruned {percent} %", _pruned(percent / 100),
             _PRUNED_CODE.replace("AMOUNT", str(percent / 100))) for percent in (25, 50, 75)),
]  # fmt: skip
"""In the order of the table."""
