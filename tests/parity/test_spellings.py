"""NumPy's names of an argument: which functions of PyTorch take them, and which the signatures say do."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from core.declare.signature import Signature, signatures

LEAST = {"gather": torch.zeros(2, 3, dtype=torch.int64), "index_select": torch.tensor([0])}


def _call(s: Signature) -> tuple[Any, dict[str, Any]] | None:
    """PyTorch's function and what a call with `dim` needs besides; None where that is not simply said."""
    place: Any = torch
    for part in filter(None, (s.namespace or "").split(".")):
        place = getattr(place, part)
    function = getattr(place, s.name, None)
    if function is None or "dim" not in {p.name for p in s.parameters}:
        return None
    given: dict[str, Any] = {}
    for p in s.parameters:
        if p.required and p.name != "dim":
            one = torch.rand(2, 3)
            values = {"Int": 1, "Tensor": LEAST.get(s.name, one) if p.name == "index" else one, "Operand": one,
                      "Tensors": [one, one]}  # fmt: skip
            if p.kind not in values:
                return None
            given[p.name] = values[p.kind]
    try:
        function(dim=0, **given)
    except Exception:
        return None
    return function, given


def _cases() -> list[Any]:
    shown = [s for s in signatures() if s.namespace is not None]
    return [pytest.param(s, *c, id=f"{s.namespace}.{s.name}") for s in shown if (c := _call(s)) is not None]


def test_there_are_enough_cases() -> None:
    assert len(_cases()) > 50


@pytest.mark.parametrize(("signature", "function", "given"), _cases())
def test_a_signature_says_whether_pytorch_takes_axis(
    signature: Signature, function: Any, given: dict[str, Any]
) -> None:
    try:
        function(axis=0, **given)
        takes = True
    except TypeError:
        takes = False
    own = {p.name for p in signature.parameters}
    assert ("axis" in own | set(signature.spellings)) == takes
