"""A public function's header, read as data."""

from __future__ import annotations

import inspect

import pytest

import core
from core.declare import kinds
from core.declare.kinds import Dims, Flag
from core.declare.signature import MISSING, SPELLINGS, Fast, alternatives, parameter, read, signature_of, signatures
from core.dispatch import publish


def _example(
    input: core.Tensor, *size: int, dim: Dims | None = None, keepdim: Flag = False, **ignored: object
) -> core.Tensor:
    raise NotImplementedError


def test_a_header_is_read_with_kinds_defaults_and_places() -> None:
    parameters, returns = read(_example)
    input, size, dim, keepdim = parameters
    assert (size.many, size.kinds, size.required) == (True, ("Int",), False)
    assert (dim.kinds, dim.optional, dim.default, dim.keyword_only) == (("Dims",), True, None, True)
    assert (keepdim.kind, keepdim.optional, keepdim.default) == ("Flag", False, False)
    assert (input.default, input.required) == (MISSING, True)
    assert returns == "core.Tensor"


@pytest.mark.parametrize(
    ("annotation", "kinds", "optional"),
    [
        ("Tensor | Number | None", ("Tensor", "Number"), True),
        ("int", ("Int",), False),
        ("Sequence[int] | int", ("Sizes", "Int"), False),
        ("Sequence[Tensor | None]", ("Any",), True),
        ("Literal['none', 'mean', 'sum']", ("Text",), False),
    ],
)
def test_an_annotation_is_its_alternatives(annotation: str, kinds: tuple[str, ...], optional: bool) -> None:
    found = parameter("p", annotation)
    assert (found.kinds, found.optional) == (kinds, optional)


def test_bars_inside_brackets_are_no_alternatives() -> None:
    assert alternatives("tuple[int | None, str] | None") == ["tuple[int | None, str]", "None"]


def test_the_words_of_a_literal_are_kept() -> None:
    assert parameter("reduction", 'Literal["none", "mean"]').choices == ("none", "mean")


def test_every_kind_is_an_alias_and_known_by_name() -> None:
    aliases = {n for n in vars(kinds) if n in kinds.KINDS}
    assert aliases == set(kinds.KINDS)


def test_an_elementwise_op_has_the_signature_of_its_declaration() -> None:
    lerp = signature_of("lerp")
    assert [p.name for p in lerp.parameters] == ["input", "other", "weight", "out"]
    assert signature_of("exp").parameter("input").kinds == ("Tensor",)
    assert signature_of("atan2").parameter("other").kinds == ("Tensor",)  # which takes no number, as PyTorch's
    assert signature_of("celu").parameter("alpha").default == 1.0


def test_what_adds_out_to_a_function_adds_it_to_the_signature() -> None:
    wrapped = publish.namespaces["linalg"]["det"]
    assert [p.name for p in read(wrapped)[0]] == ["A", "out"]


def test_numpys_spellings_follow_from_the_names() -> None:
    assert signature_of("sum").spellings == {"axis": "dim", "keepdims": "keepdim", "x": "input", "a": "input",
                                             "x1": "input"}  # fmt: skip
    assert all(isinstance(s, tuple) for s in SPELLINGS.values())


def test_every_shown_function_is_in_the_register() -> None:
    known = {(s.namespace, name) for s in signatures() for name in (s.name, *s.aliases)}
    shown = {
        ("", n)
        for n, f in publish.namespaces[""].items()
        if not n.endswith("_") and inspect.unwrap(f).__module__ == "core.ops.reduce"
    }
    assert shown
    assert shown <= known


@pytest.mark.parametrize(
    ("fast", "target"),
    [
        (Fast(op="sum(input, dim, keepdim)"), ("op", "sum", ["input", "dim", "keepdim"])),
        (Fast(elementwise="add(input, other)"), ("elementwise", "add", ["input", "other"])),
        (Fast(body="of_truths(input)"), ("body", "of_truths", ["input"])),
    ],
)
def test_a_plain_call_says_what_it_comes_to(fast: Fast, target: tuple[str, str, list[str]]) -> None:
    assert fast.target == target


def test_a_plain_call_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="not a call over parameters"):
        _ = Fast(op="sum").target
