"""NumPy's names of an argument: every public function and method called by each of them, beside PyTorch.

``python -m tests.parity.test_spellings`` prints what differs.
"""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
import warnings
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

import core
from core.declare import signature
from core.declare.signature import SPELLINGS, Signature, signatures
from core.dispatch.type_errors import guarded

X = np.array([[0.25, 0.5, 0.75], [0.125, 0.625, 0.875]], np.float32)
INDEX = {"gather": np.zeros((2, 3), np.int64), "index_select": np.array([0])}


class Case(NamedTuple):
    """A call by the parameters' own names, and another name of one of them; `method`: of the tensor `input`."""

    signature: Signature
    method: bool
    given: dict[str, Any]
    word: str
    name: str

    @property
    def told(self) -> str:
        return f"{'Tensor' if self.method else self.signature.namespace}.{self.signature.name}({self.word}=)"


def _place(library: Any, s: Signature) -> Any:
    for part in filter(None, (s.namespace or "").split(".")):
        library = getattr(library, part)
    return library


def _as(library: Any, value: Any) -> Any:
    """Arrays as the library's tensors; new ones, as some of the calls write."""
    if isinstance(value, np.ndarray):
        return library.tensor(value.tolist())
    return [_as(library, v) for v in value] if isinstance(value, list) else value


def outcome(library: Any, case: Case, swap: bool) -> Any:
    """What the call comes to: the class of its error, or its values."""
    given = {case.word if swap and k == case.name else k: _as(library, v) for k, v in case.given.items()}
    library.manual_seed(0)
    try:
        owner = given.pop("input") if case.method else _place(library, case.signature)
        found = getattr(owner, case.signature.name)(**given)
    except Exception as error:
        return type(error).__name__
    return [_value(found)]


def _value(v: Any) -> Any:
    if isinstance(v, tuple | list):
        return [_value(one) for one in v]
    if not isinstance(v, torch.Tensor | core.Tensor):
        return repr(v)
    a = np.asarray(v.tolist())
    return repr((a.round(4) + 0.0 if a.dtype.kind in "fc" else a).tolist())  # NaN is equal to NaN, and -0 to 0


def least(s: Signature) -> dict[str, Any] | None:
    """A call with all required parameters, `dim` and `keepdim`; None where that is not simply said."""
    given: dict[str, Any] = {}
    for p in s.parameters:
        values = {"Int": 1, "Dim": 0, "Tensor": INDEX.get(s.name, X) if p.name == "index" else X, "Operand": X,
                  "Number": 1.0, "Scalar": 1.0, "Tensors": [X, X]}  # fmt: skip
        if p.name == "dim":
            given["dim"] = 0
        elif p.name == "keepdim" and "dim" in given:
            given["keepdim"] = True
        elif p.required and p.kind in values:
            given[p.name] = values[p.kind]
        elif p.required:
            return None
    return given


def shown(s: Signature, method: bool) -> bool:
    """Whether PyTorch has the function, or the method."""
    if method:
        return s.method and hasattr(torch.Tensor, s.name) and s.parameters[0].name == "input"
    return s.namespace is not None and hasattr(_place(torch, s), s.name)


def cases() -> list[Case]:
    """The calls that both libraries take by the parameters' own names, to equal results."""
    found = []
    for s in signatures():
        given = least(s)
        if given is None:
            continue
        for method in (False, True):
            if not shown(s, method):
                continue
            words = [
                (w, n) for n in given for w in SPELLINGS.get(n, ()) if w not in given and not (method and n == "input")
            ]
            if words:
                plain = Case(s, method, given, "", "")
                theirs = outcome(torch, plain, False)
                if isinstance(theirs, str) or theirs != outcome(core, plain, False):
                    continue
                found += [Case(s, method, given, w, n) for w, n in words]
    return found


def differences() -> tuple[int, list[str]]:
    """How many calls there are, and which come to something else than PyTorch's."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        every = cases()
        told = [f"{c.told}: {ours} here, {theirs} in PyTorch" for c in every
                if (ours := outcome(core, c, True)) != (theirs := outcome(torch, c, True))]  # fmt: skip
    return len(every), told


@pytest.mark.parametrize("native", ["1", "0"])
def test_numpys_names_come_to_what_they_come_to_in_pytorch(native: str) -> None:
    ran = subprocess.run([sys.executable, "-m", __spec__.name], env={**os.environ, "GRADLAB_NATIVE": native},
                         capture_output=True, text=True, check=True)  # fmt: skip
    count, _, differ = ran.stdout.partition(" calls, ")
    assert int(count) > 900
    assert differ.startswith("0 differ"), ran.stdout


X2 = core.tensor(X.tolist())


@pytest.mark.parametrize("call", [
    lambda: core.squeeze(X2, dim=0, axis=0),
    lambda: core.squeeze(X2, 0, axis=0),
    lambda: core.sum(X2, dim=0, axis=0),
    lambda: X2.sum(a=X2),
    lambda: core.exp(X2, x=X2),
    lambda: core.lerp(input=X2, x=X2, end=X2, weight=X2),
    lambda: core.squeeze(X2, axs=0),
    lambda: core.squeeze(X2, axis="q"),
    lambda: core.nn.functional.softmax(X2, axis=0),
])  # fmt: skip
def test_an_argument_that_is_there_twice_or_of_no_such_name_is_refused(call: Any) -> None:
    with pytest.raises(TypeError):
        call()


def test_functions_outside_of_the_register_take_them_too() -> None:
    x = core.ones(2, 3)
    assert core.special.erfinv(x=x / 2).tolist() == core.special.erfinv(x / 2).tolist()
    assert core.special.softmax(x, axis=0).tolist() == core.special.softmax(x, dim=0).tolist()
    assert core.fft.fft(x, axis=0).tolist() == core.fft.fft(x, dim=0).tolist()
    assert core.linalg.vector_norm(x, axis=0).tolist() == core.linalg.vector_norm(x, dim=0).tolist()
    assert core.exp_(x=x.clone()).tolist() == x.exp().tolist()
    for f in (core.nn.functional.softmax, core.nn.functional.relu):
        with pytest.raises(TypeError):
            f(x=x)


@pytest.mark.parametrize("call", [
    lambda t, x: t.lerp(x, end=2 * x, weight=0.5),
    lambda t, x: x.lerp(end=2 * x, weight=0.5),
    lambda t, x: t.heaviside(x - 0.5, values=x),
    lambda t, x: t.hsplit(x, sections=3),
    lambda t, x: t.vsplit(x, indices=[1]),
    lambda t, x: t.tensor_split(x, sections=2),
    lambda t, x: t.tensor_split(x, indices=(1,)),
    lambda t, x: x.split(split_size=1),
    lambda t, x: x.split_with_sizes(split_sizes=[1, 1]),
    lambda t, x: t.unsafe_split(input=x, split_size=1),
    lambda t, x: t.isin(x, test_element=0.5),
    lambda t, x: x.clone().uniform_(**{"from": 1, "to": 2}).floor(),
    lambda t, x: x.clone().random_(**{"from": 1, "to": 2}),
    lambda t, x: x.clone().random_(to=1),
    lambda t, x: x.clone().resize_(size=(3, 2)),
    lambda t, x: x.sum_to_size(size=(1, 3)),
    lambda t, x: x.clone().copy_(other=x[0]),
    lambda t, x: t.nn.functional.one_hot(input=t.tensor([1, 0])),
    lambda t, x: t.cholesky_solve(input=x, input2=t.eye(2)),
    lambda t, x: t.cholesky_inverse(input=t.eye(2)),
    lambda t, x: t.det(input=x[:, :2]),
    lambda t, x: t.matrix_power(input=x[:, :2], n=2),
    lambda t, x: t.linalg.cond(input=x),
    lambda t, x: t.linalg.pinv(input=x),
    lambda t, x: t.linalg.vector_norm(input=x),
    lambda t, x: t.linalg.lstsq(input=x.T, b=x.T)[0],
    lambda t, x: t.linalg.tensorsolve(input=t.eye(2), other=x[:, 0]),
    lambda t, x: t.arange(end=3),
])  # fmt: skip
def test_what_single_functions_call_their_parameters_besides(call: Any) -> None:
    assert _value(call(core, X2)) == _value(call(torch, torch.tensor(X.tolist())))


def test_headers_show_no_other_names() -> None:
    assert [str(s) for s in signatures() if "names" in str(s)] == []
    for f in (core.sum, core.max, core.std, core.cat):
        assert not {"names", "axis"} & set(inspect.signature(f).parameters)


def test_under_autocast_a_call_by_another_name_casts_too() -> None:
    with core.autocast("cpu"):
        assert core.cumsum(X2.bfloat16(), axis=0).dtype is core.cumsum(X2.bfloat16(), dim=0).dtype
        assert core.matmul(x1=X2, x2=X2.T).dtype is core.bfloat16


def test_an_error_from_within_a_function_is_not_taken_for_a_name_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def function(dim: int = 0) -> Any:
        calls.append(dim)
        function(axis=1)  # type: ignore[call-arg] # its own mistake

    monkeypatch.setattr(signature, "_public", dict(signature._public))
    signature.register(function, "function")
    with pytest.raises(TypeError, match="unexpected keyword argument 'axis'"):
        guarded(function)(axis=3)
    assert calls == [3]


if __name__ == "__main__":
    count, lines = differences()
    print(f"{count} calls, {len(lines)} differ", *lines, sep="\n")
