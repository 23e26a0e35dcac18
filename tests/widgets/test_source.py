"""Lines as Python counts them, and colours that never fail."""

from hypothesis import given
from hypothesis import strategies as st

from widgets.source import colours, lines_of


def pieces(source):
    lines = lines_of(source)
    return [(lines[k][a:b], kind) for k, spans in enumerate(colours(source)) for a, b, kind in spans]


def test_kinds():
    assert pieces("def f(x):  # why\n    return x + 1.5, 'a'") == [
        ("def", "k"), ("# why", "c"), ("return", "k"), ("1.5", "d"), ("'a'", "s"),
    ]  # fmt: skip


def test_a_triple_quoted_string_is_coloured_on_all_its_lines():
    assert pieces('x = """a\n# no comment\nb"""') == [('"""a', "s"), ("# no comment", "s"), ('b"""', "s")]


def test_a_magic_is_plain_text_and_other_separators_are_no_newlines():
    assert colours("%time x\n!ls") == colours("%time x\n!ls")
    assert lines_of("a\u2028b\x0cc\nd\r\n") == ["a\u2028b\x0cc", "d"]


@given(st.text(max_size=60))
def test_any_text_has_spans_inside_its_lines(source):
    lines, spans = lines_of(source), colours(source)
    assert len(lines) == len(spans)
    assert all(0 <= a <= b <= len(line) for line, row in zip(lines, spans, strict=True) for a, b, _ in row)
