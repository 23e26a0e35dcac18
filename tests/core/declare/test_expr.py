"""Scalar expressions: what a trace keeps, and what its three printed forms say."""

from __future__ import annotations

import math

import numpy as np
import pytest

import core
from core.backends import special
from core.declare.expr import PRIMITIVES, c_lines, lift, numpy_source, s, trace, triton_lines


def run(program, *args):
    namespace: dict = {}
    exec(numpy_source(program), namespace)
    return namespace[program.name](np, special, *args)


def test_equal_parts_become_one_statement():
    p = trace("f", lambda x, y: s.exp(x + y) * (x + y) + s.exp(x + y), ["x", "y"])
    assert [st.op for st in p.statements] == ["add", "exp", "mul", "add"]
    assert p.inputs == ("x", "y")


def test_zero_and_minus_zero_are_two_constants():
    p = trace("f", lambda x: s.atan2(0.0 * x, x * 1.0) + s.atan2(-0.0 * x, x * 1.0), ["x"])
    assert run(p, np.float64(-1.0)) == pytest.approx(0.0)
    assert [st.operands[0] for st in p.statements if st.op == "mul"][:1] == [0.0]
    assert sum(st.op == "mul" for st in p.statements) == 3


def test_int_and_float_constants_are_two():
    p = trace("f", lambda x: x * 2 + x * 2.0, ["x"])
    assert [st.op for st in p.statements] == ["mul", "mul", "add"]


@pytest.mark.parametrize("value", [0.0, -0.0, -1.5, 3, -3, math.inf, -math.inf, 1e-300, True])
def test_constants_print_so_that_they_can_be_negated(value):
    p = trace("f", lambda x: x - (-lift(value)), ["x"])
    assert run(p, np.float64(1.0)) == 1.0 + value
    lines, _ = c_lines(p, "f64")
    assert "--" not in " ".join(lines)


def test_nan_prints():
    p = trace("f", lambda x: x + math.nan, ["x"])
    assert math.isnan(run(p, np.float64(1.0)))
    assert "NAN" in c_lines(p, "f32")[0][0]
    assert 'float("nan")' in triton_lines(p, {"add": "({0} + {1})"})[0][0]


def test_numpy_numbers_print_as_numbers():
    assert "np.float64" not in numpy_source(trace("f", lambda x: x * np.float64(2.5), ["x"]))


def test_a_result_without_statements():
    p = trace("f", lambda g: g, ["g"])
    assert (p.statements, p.result) == ((), "g")
    assert c_lines(trace("f", lambda g: lift(0.5), ["g"]), "f32") == ([], "0.5f")


def test_parameters_and_conditions():
    p = trace("f", lambda c, x, n: s.where(c & (x > n), x, n), ["c", "x"], ["n"], ["c"])
    assert (p.kinds, p.params, p.is_bool) == (("bool", "number"), ("n",), False)
    assert run(p, np.array([True, False]), np.array([3.0, 3.0]), 2.0).tolist() == [3.0, 2.0]
    lines, _ = c_lines(p, "f64")
    assert lines[0].startswith("const int t0")
    assert lines[-1].startswith("const double")


@pytest.mark.parametrize(
    ("function", "is_bool"),
    [
        (lambda x: x > 0, True),
        (lambda x: (x > 0) ^ (x < 2), True),
        (lambda x: ~s.isnan(x), True),
        (lambda x: s.where(x > 0, x > 1, x < 1), True),
        (lambda x: s.where(x > 0, 1.0, 0.0), False),
    ],
)
def test_what_is_a_condition(function, is_bool):
    assert trace("f", function, ["x"]).is_bool is is_bool


def test_operators_and_their_reflections():
    cases = [lambda x: x + 1, lambda x: 1 + x, lambda x: x - 1, lambda x: 1 - x, lambda x: x * 2, lambda x: 2 * x,
             lambda x: x / 2, lambda x: 2 / x, lambda x: x**2, lambda x: 2**x, lambda x: x // 2, lambda x: 2 // x,
             lambda x: x % 2, lambda x: 2 % x, lambda x: -x, lambda x: abs(x)]  # fmt: skip
    for f in cases:
        p = trace("f", f, ["x"])
        assert run(p, np.float64(3.0)) == f(3.0), p.text


def test_the_formula():
    assert (
        trace("f", lambda x, c: s.where(x > 0, x, -((x + c) ** 2)), ["x"], ["c"]).text
        == "where(x > 0, x, -((x + c) ** 2))"
    )


def test_expressions_have_no_truth_value():
    for function in (lambda x: 1 if x else 0, lambda x: 0 < x < 1, lambda x: max(x, 0)):
        with pytest.raises(TypeError, match="write where"):
            trace("f", function, ["x"])


def test_what_is_no_number():
    with pytest.raises(TypeError, match="takes numbers and expressions, not str"):
        trace("f", lambda x: s.maximum(x, "0"), ["x"])
    with pytest.raises(TypeError):
        trace("f", lambda x: x + "0", ["x"])
    with pytest.raises(AttributeError, match="no scalar primitive named 'expp'"):
        trace("f", lambda x: s.expp(x), ["x"])
    with pytest.raises(TypeError, match="exp takes 1 operands, got 2"):
        trace("f", lambda x: s.exp(x, x), ["x"])


def test_sharing_costs_nothing():
    """Sixty squarings are sixty statements, though the formula in full would be longer than the universe."""

    def deep(x):
        for _ in range(60):
            x = s.where(x > 0, x, x) * x
        return x

    p = trace("deep", deep, ["x"])
    assert len(p.statements) == 180
    assert p.text == "…"


def test_long_chains_do_not_recurse():
    def long(x):
        for _ in range(5000):
            x = x + 1
        return x

    p = trace("long", long, ["x"])
    assert run(p, np.float64(0.0)) == 5000


@pytest.mark.parametrize("name", sorted(PRIMITIVES))
def test_every_primitive_is_also_an_op_on_tensors(name, rng):
    """The gradients of gradients run the same text on tensors."""
    arity = PRIMITIVES[name][0]
    names = ["a", "b", "c"][:arity]
    conditions = {"where": ["a"], "and": ["a", "b"], "or": ["a", "b"], "xor": ["a", "b"], "not": ["a"]}.get(name, [])
    arguments = ", ".join(names)
    p = trace("f", eval(f"lambda {arguments}: f({arguments})", {"f": getattr(s, name)}), names, (), conditions)
    arrays = [rng.random(5) > 0.5 if n in conditions else rng.uniform(0.2, 0.8, 5) for n in names]
    if name == "acosh":
        arrays = [a + 1 for a in arrays]
    tensors = [core.tensor(a) for a in arrays]
    try:
        got = getattr(s, name)(*tensors)
    except KeyError:
        dunder = {"and": "__and__", "or": "__or__", "xor": "__xor__", "not": "__invert__"}
        operator = {"add", "sub", "mul", "div", "neg", "eq", "ne", "lt", "le", "gt", "ge", "abs", "pow"}
        assert name in dunder or name in operator, f"{name} has no op of its name and no operator"
        if name not in dunder:
            return
        got = getattr(tensors[0], dunder[name])(*tensors[1:])
    np.testing.assert_allclose(got.numpy(), run(p, *arrays), rtol=1e-12)
