"""The stubs that are printed from the headers of the public functions."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path

import pytest

import core
from core import stubs
from core.dispatch import publish

# What no header can say: arguments of any type, or in forms that have no common header.
OPEN = {"einsum", "gru", "lstm", "rnn_relu", "rnn_tanh", "apply_", "map_", "record_stream", "breakpoint", "real",
        "imag", "new", "set_", "as_subclass", "storage",
        "untyped_storage", "linear_cross_entropy", "triplet_margin_with_distance_loss"}  # fmt: skip


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    return stubs.stubs()


def _functions(text: str) -> list[ast.FunctionDef]:
    return [n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.FunctionDef)]


def test_every_function_of_a_namespace_is_printed(texts: dict[str, str]) -> None:
    printed = {n.name for n in _functions(texts["functions.pyi"])}
    assert set(publish.namespaces[""]) <= printed
    assert {"tensor", "zeros", "randn"} <= printed
    assert {n.name for n in _functions(texts["fft.pyi"])} == set(publish.namespaces["fft"])


def test_every_method_of_tensor_has_a_header(texts: dict[str, str]) -> None:
    known = {n.name for n in _functions(texts["methods.pyi"])} | stubs._in_class_body() | {"grad"}
    known |= set(re.findall(r"^    (\w+): ", texts["methods.pyi"], re.M))
    missing = {n for n in vars(core.Tensor) if not n.startswith("_")} - known
    assert not missing


def test_no_argument_is_left_open_but_where_any_type_is_right(texts: dict[str, str]) -> None:
    wrong = set()
    for text in texts.values():
        for f in _functions(text):
            if f.name.startswith("__"):
                continue
            hints = [a.annotation for a in (*f.args.args, *f.args.kwonlyargs, f.args.vararg) if a is not None]
            said = [ast.unparse(h) for h in (*hints, f.returns) if h is not None]
            if any(re.search(r"\bAny\b", s) for s in said):
                wrong.add(f.name)
    assert wrong == OPEN


def test_names_in_annotations_are_known(texts: dict[str, str]) -> None:
    """A name that the head of a stub does not import would be an unknown type, which checkers take for Any."""
    for file, text in texts.items():
        tree = ast.parse(text)
        known = {
            a.asname or a.name for n in ast.walk(tree) if isinstance(n, ast.Import | ast.ImportFrom) for a in n.names
        }
        known |= {"int", "bool", "float", "str", "tuple", "complex", "type", "property", "object", "None"}
        used = set()
        for f in _functions(text):
            hints = [a.annotation for a in (*f.args.args, *f.args.kwonlyargs, f.args.vararg) if a is not None]
            for hint in (*hints, f.returns):
                used |= {n.id for n in ast.walk(hint) if isinstance(n, ast.Name)} if hint is not None else set()
        assert used <= known, file


def test_an_in_place_form_has_the_header_of_its_function(texts: dict[str, str]) -> None:
    assert "def add_(self, other: Operand, *, alpha: builtins.float = 1) -> Tensor" in texts["methods.pyi"]
    assert "def relu_(input: Tensor) -> Tensor" in texts["functions.pyi"]


def test_overloads_are_printed_where_the_result_depends(texts: dict[str, str]) -> None:
    found = [f for f in _functions(texts["functions.pyi"]) if f.name == "max"]
    assert [ast.unparse(f.returns) for f in found if f.returns is not None] == ["Tensor", "return_types.max", "Tensor"]


@pytest.mark.parametrize(
    ("function", "names"),
    [
        (core.sum, ["input", "dim", "keepdim", "dtype"]),
        (core.lerp, ["input", "other", "weight", "out"]),
        (core.Tensor.index_add_, ["input", "dim", "index", "source", "alpha"]),
    ],
)
def test_inspect_shows_the_header(function: object, names: list[str]) -> None:
    shown = inspect.signature(function)  # type: ignore[arg-type]
    assert [n for n in shown.parameters if n != "names"] == names
    assert shown.return_annotation == "Tensor"


def test_help_shows_the_header(capsys: pytest.CaptureFixture[str]) -> None:
    help(core.sum)
    shown = capsys.readouterr().out.replace("'", "")  # Python 3.14 shows annotations without quotes
    assert "dim: Dims | None = None" in shown


def _defaults(function: ast.FunctionDef) -> dict[str, str]:
    given = function.args
    names = [a.arg for a in given.posonlyargs + given.args]
    found = dict(zip(names[len(names) - len(given.defaults) :], map(ast.unparse, given.defaults), strict=True))
    return found | {a.arg: ast.unparse(d) for a, d in zip(given.kwonlyargs, given.kw_defaults, strict=True) if d}


def test_overloads_have_the_defaults_of_what_runs() -> None:
    wrong, compared = [], 0
    for path in sorted(Path(core.__file__).parent.rglob("*.py")):
        for scope in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            overloads: dict[str, list[ast.FunctionDef]] = {}
            for function in getattr(scope, "body", ()) if isinstance(scope, ast.Module | ast.ClassDef) else ():
                if not isinstance(function, ast.FunctionDef):
                    continue
                if any(ast.unparse(d) == "overload" for d in function.decorator_list):
                    overloads.setdefault(function.name, []).append(function)
                    continue
                own = _defaults(function)
                for said in overloads.pop(function.name, []):
                    for name, default in _defaults(said).items():
                        compared += 1
                        none = "None" if name == "out" else "no default"  # every op takes `out`: dispatch reads it
                        if default not in ("...", own.get(name, none)):
                            wrong.append(f"{path.name} line {said.lineno}: {function.name}({name}={default})")
    assert wrong == []
    assert compared > 20
