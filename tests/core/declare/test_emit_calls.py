"""The printer of parsers: what it prints for a header, and what it refuses."""

from __future__ import annotations

import shutil
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from core.declare import emit_calls
from core.declare.signature import Fast, Public


def public(function: Any, *fast: Fast) -> Public:
    return Public(function, function.__name__, (), True, "", False, False, fast, "plain", "home")


def printed(function: Any, *fast: Fast) -> str:
    return emit_calls.Printer([public(function, *fast)]).files()["parse_home.h"]


def test_a_parameter_that_a_plain_call_does_not_mention_must_be_at_its_default() -> None:
    def f(input: Tensor, dim: int, flag: bool = True, dtype: Dtype | None = None) -> Tensor: ...  # type: ignore[name-defined] # noqa: F821

    text = printed(f, Fast(op="f(input, dim)", types={"input": "real"}))
    assert "(flag && flag != Py_True) || !left_out(dtype)" in text


def test_a_known_object_is_no_mention_of_a_parameter_of_that_name() -> None:
    """`dtype.int64` once read as the parameter `dtype`, which the body then did not get."""

    def f(input: Tensor, op: int = 0, dtype: Dtype | None = None) -> Tensor: ...  # type: ignore[name-defined] # noqa: F821

    text = printed(f, Fast(body="made(op.cast, dtype.int64, input)", types={"input": "bool"}))
    assert "if ((op && !is_value(op, int_0)) || !left_out(dtype)) return NULL;" in text


def test_an_owned_reference_is_released_on_every_way_out() -> None:
    def f(input: Tensor, dim: Dims | None = None) -> Tensor: ...  # type: ignore[name-defined] # noqa: F821

    text = printed(f, Fast(op="f(input, dim)", types={"input": "real"}, check=("fits({dim})",)))
    assert "if (!(fits(dim_d))) { Py_DECREF(dim_d); return NULL; }" in text
    assert text.index("Py_DECREF(dim_d);\n    return result_;") > 0


def test_a_parameter_with_a_name_of_c_is_refused() -> None:
    def f(input: Tensor, register: int = 0) -> Tensor: ...  # type: ignore[name-defined] # noqa: F821

    with pytest.raises(ValueError, match="'register' means something else in C"):
        printed(f, Fast(op="f(input)", types={"input": "real"}))


def test_another_header_has_another_key() -> None:
    def f(input: Tensor, dim: int = 0) -> Tensor: ...  # type: ignore[name-defined] # noqa: F821

    first = public(f, Fast(op="f(input)")).key
    assert first == public(f, Fast(op="f(input)")).key
    assert first != public(f, Fast(op="f(input, dim)")).key
    f.__defaults__ = (1,)
    assert first != public(f, Fast(op="f(input)")).key


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs a C compiler")
def test_the_compiler_holds_a_body_to_its_parser(tmp_path: Path) -> None:
    def f(input: Tensor, dim: int) -> Tensor: ...  # type: ignore[name-defined] # noqa: F821

    native = Path(emit_calls.__file__).parents[1] / "native"
    for taken, fails in (("npy_intp dim", False), ("PyObject *dim", True)):
        files = emit_calls.Printer([public(f, Fast(body="made(input, dim)", types={"input": "any"}))]).files()
        for name, text in files.items():
            (tmp_path / "generated").mkdir(exist_ok=True)
            (tmp_path / "generated" / name).write_text(text)
        body = f"static PyObject *made(PyObject *input, {taken}) {{ (void)dim; return input; }}\n"
        source = tmp_path / "home.c"
        source.write_text(f'#include "generated/parsers.h"\n{body}#include "generated/parse_home.h"\n')
        command = ["gcc", "-std=gnu11", "-fsyntax-only", "-Werror=int-conversion", "-Werror=incompatible-pointer-types",
                   f"-I{tmp_path}", f"-I{native}", f"-I{np.get_include()}",
                   f"-I{sysconfig.get_paths()['include']}", str(source)]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert bool(done.returncode) is fails, done.stderr


def test_where_the_bodies_are_must_be_said_where_there_are_any() -> None:
    def f(input: Tensor, dim: int) -> Tensor: ...  # type: ignore[name-defined] # noqa: F821

    def printer(fast: Fast) -> emit_calls.Printer:
        return emit_calls.Printer([Public(f, "f", (), True, "", False, False, (fast,), "plain", "")])

    assert "parse_f" in printer(Fast(op="f(input, dim)", types={"input": "real"})).files()["parse_ops.h"]
    with pytest.raises(ValueError, match="name its file in core/native/binding/calls"):
        printer(Fast(body="made(input, dim)", types={"input": "real"})).files()
