"""The variants: how each is made of a copy of a model, and the code that makes it."""

from __future__ import annotations

import ast
import copy
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import core
from core.ao import quantization
from core.base import syntax
from core.nn.utils.shrink import shrink as pruned
from widgets.figures import share

from .samples import Samples

NOT_RETRAINED = ", not retrained"
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
    code: str = ""
    """What the user writes, with {model}, {example} and {inputs} for the model, a few inputs, and many as arguments;
    where it is not given, that of what `build` gives."""
    halves: bool = False
    """Whether floating inputs are in bfloat16."""
    note: str = ""
    core_only: bool = True

    @property
    def pruned(self) -> bool:
        """Whether it removes channels, and is worth little before it is trained again."""
        return self.key.startswith("pruned-")

    def made(self, reference: Any, samples: Samples, library: Any, title: str, data: str) -> Made:
        """Make the variant. *Raises*: whatever says why it cannot be made."""
        if self.core_only and library is not core:
            raise TypeError("variants of whole numbers and pruned ones are made of models of core; came: a model of "
                            "PyTorch; remedy: the same code with import core as torch")  # fmt: skip
        built = self.build(copy.deepcopy(reference), samples)
        found = built if isinstance(built, Made) else Made(built, _to_halves(library) if self.halves else lambda x: x)
        several = len(samples.batches[0][0]) > 1
        inputs = example_of(data, samples, CALIBRATION)
        found.code = (found.code or self.code).format(model=title, example=example_of(data, samples, 2),
                                                      inputs=f"*{inputs}" if several else inputs)  # fmt: skip
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
    known = type(error) in (TypeError, ValueError, RuntimeError, NotImplementedError) or type(
        error
    ).__module__.startswith("core.")
    return said if known else f"{type(error).__name__}: {said}", " ".join(remedy.split())


def example_of(data: str, samples: Samples, n: int) -> str:
    """Return how the user writes the first `n` of the inputs, or a batch of them.

    >>> example_of("(x, y)", Samples(), 2), example_of("loader", Samples(loaded=True), 2), example_of("t", Samples(), 2)
    ('x[:2]', 'next(iter(loader))[0]', 't[0][:2]')
    """
    if samples.loaded:
        return f"next(iter({data}))" + ("[0]" if not samples.batches or samples.labelled else "")
    try:
        written = syntax.expression(data)
    except SyntaxError:
        return "x"
    if isinstance(written, ast.Tuple) and written.elts and not isinstance(written.elts[0], ast.Tuple):
        return f"{ast.unparse(written.elts[0])}[:{n}]"
    if isinstance(written, ast.Tuple) and written.elts:
        return f"tuple(part[:{n}] for part in {ast.unparse(written.elts[0])})"
    return f"{data}[0][:{n}]" if not samples.batches or samples.labelled else f"{data}[:{n}]"


# -- how they are made -------------------------------------------------------------------------------------------------

_HEAD = "import copy\n\nimport core\n"
_COPY = "small = copy.deepcopy({model}).eval()\n"


def _quantised(name: str, **settings: Any) -> Callable[[Any, Samples], Made]:
    """Return what makes every layer one of whole numbers, or where a config is not for all of them, linear ones."""

    def build(model: Any, samples: Samples) -> Made:
        other = copy.deepcopy(model)
        try:
            return _in_whole_numbers(model, samples, name, settings, every=True)
        except NotImplementedError as error:
            found = _in_whole_numbers(other, samples, name, settings, every=False)
            found.note = f"linear layers alone: {refusal_of(error)[0].partition(';')[0]}"
            return found

    return build


def _in_whole_numbers(model: Any, samples: Samples, name: str, settings: dict[str, Any], every: bool) -> Made:
    """Quantise a model as its code does, and say in the note what kept its floats."""
    config = partial(getattr(quantization, name), **settings)
    which: dict[str, Any] = {"filter_fn": quantization.every_layer} if every else {}
    said = ", ".join(f"{key}={value!r}" for key, value in settings.items())
    more = ", filter_fn=every_layer" if every else ""
    lines = [f"{_HEAD}from core.ao.quantization import {name}{', every_layer' if every else ''}\n", _COPY.rstrip()]
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        if "Static" in name:
            core.quantize_(model, config(step="prepare"), **which)
            _run(model, samples, CALIBRATION)
            core.quantize_(model, config(step="convert"))
            lines += [f'core.quantize_(small, {name}(step="prepare"){more})', "small({inputs})",
                      f'core.quantize_(small, {name}(step="convert"))']  # fmt: skip
        else:
            core.quantize_(model, config(), **which)
            lines.append(f"core.quantize_(small, {name}({said}){more})")
    texts = [str(w.message) for w in told]
    kept = list(dict.fromkeys(text.partition("quantize_: ")[2] for text in texts if "quantize_: " in text))
    note = f"{kept[0]}{f', and {len(kept) - 1} more' if len(kept) > 1 else ''}" if kept else ""
    return Made(model, lambda x: x, "\n".join(lines) + "\n", note)


def _run(model: Any, samples: Samples, most: int) -> None:
    """Run a model on so many items at most."""
    left = most
    with core.no_grad():
        for inputs, _ in samples.batches:
            model(*(x[:left] for x in inputs))
            left -= len(inputs[0])
            if left <= 0:
                return


def _halved(model: Any, samples: Samples) -> Any:
    return model.bfloat16()


def _pruned(amount: float) -> Callable[[Any, Samples], Any]:
    def build(model: Any, samples: Samples) -> Any:
        before = sum(p.numel() for p in model.parameters())
        plan = pruned(model, samples.rows(2), amount)
        left = sum(p.numel() for p in model.parameters()) / before
        return Made(model, lambda x: x, note=f"{share(left)} of the parameters{NOT_RETRAINED}", kept=plan.keep)

    return build


_PRUNED_CODE = f"""{_HEAD}from core.nn.utils.shrink import shrink

{_COPY}print(shrink(small, {{example}}, amount=AMOUNT))
# train it for some epochs more: that gives it its accuracy back
"""

RECIPES = [
    Recipe("float32", "float32", lambda model, samples: model, "", core_only=False),
    Recipe("bf16", "bf16", _halved, "import copy\n\n" + _COPY.replace(".eval()", ".eval().bfloat16()")
           + "# its floating inputs too: small(x.bfloat16())\n", halves=True, core_only=False),
    Recipe("int8-weight", "int8 weight-only", _quantised("Int8WeightOnlyConfig")),
    Recipe("int8-dynamic", "int8 dynamic", _quantised("Int8DynamicActivationInt8WeightConfig")),
    Recipe("int8-static", "int8 static", _quantised("Int8StaticActivationInt8WeightConfig")),
    Recipe("int4", "int4", _quantised("Int4WeightOnlyConfig", group_size=32)),
    *(Recipe(f"pruned-{percent}", f"pruned {percent} %", _pruned(percent / 100),
             _PRUNED_CODE.replace("AMOUNT", str(percent / 100))) for percent in (25, 50, 75)),
]  # fmt: skip
"""In the order of the table."""
