"""Functions whose annotations are names for type checkers alone: Python 3.14 evaluates them when it is asked for them,
and what reads the parameters of a user's function must not."""

from __future__ import annotations

import sys
from typing import Any

import pytest

import core
from core import nn
from core.base.signatures import signature

# Nobody knows a Batch: as if it came from `if TYPE_CHECKING: from nowhere import Batch`.
LATER = """
class Model(nn.Module):
    def forward(self, x: Batch, *, scale: Batch = 2.0) -> Batch:
        return x * scale

class Twice(core.autograd.Function):
    @staticmethod
    def forward(x: Batch, by: Batch = 2.0) -> Batch:
        return x * by

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.by = inputs[1]

    @staticmethod
    def backward(ctx, g: Batch) -> Batch:
        return g * ctx.by, None

def doubled(x: Batch) -> Batch:
    return x * 2.0

def cube(x: "Tensor", by: Batch = 3.0) -> "Tensor":
    return x ** by

class Drawn(nn.Module):
    def __init__(self, size: Batch, device: Batch = None) -> None:
        super().__init__()
        self.weight = nn.Parameter(core.empty(size, device=device))
"""
if sys.version_info < (3, 14):
    LATER = "from __future__ import annotations\n" + LATER


@pytest.fixture
def made() -> dict[str, Any]:
    space: dict[str, Any] = {"core": core, "nn": nn, "__name__": __name__}
    exec(compile(LATER, "<annotated>", "exec", dont_inherit=True), space)
    return space


X = core.tensor([1.0, 2.0])


def test_parameters_are_read(made: dict[str, Any]) -> None:
    assert list(signature(made["Model"]().forward).parameters) == ["x", "scale"]
    assert list(signature(made["doubled"]).parameters) == ["x"]


def test_functions_are_traced_and_exported(made: dict[str, Any]) -> None:
    assert core.fx.symbolic_trace(made["doubled"])(X).tolist() == [2.0, 4.0]
    assert core.jit.trace(made["doubled"], (X,))(X).tolist() == [2.0, 4.0]
    assert core.fx.symbolic_trace(made["Model"]())(X).tolist() == [2.0, 4.0]


def test_models_are_captured_for_onnx(made: dict[str, Any]) -> None:
    program = core.onnx.export(made["Model"](), (X,), dynamic_axes={"x": {0: "batch"}})
    assert program is not None
    assert program(core.ones(3)).tolist() == [2.0] * 3


def test_functions_with_a_gradient_take_defaults(made: dict[str, Any]) -> None:
    x = core.tensor([3.0], requires_grad=True)
    made["Twice"].apply(x).backward()
    assert x.grad.tolist() == [2.0]


def test_custom_ops_know_what_is_a_tensor(made: dict[str, Any]) -> None:
    op = core.library.custom_op("annotated::cube", made["cube"])
    assert op(X).tolist() == [1.0, 8.0]


def test_modules_whose_weights_are_not_drawn(made: dict[str, Any]) -> None:
    assert core.nn.utils.skip_init(made["Drawn"], 3).weight.shape == (3,)
