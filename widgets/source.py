"""The colours of a cell's source: spans of keywords, strings, numbers and comments, found by Python's own tokenizer."""

import io
import keyword
import tokenize

KINDS = {tokenize.STRING: "s", tokenize.COMMENT: "c", tokenize.NUMBER: "d"}
# Python 3.12 splits f-strings into parts; each part is coloured like a string.
KINDS |= {
    getattr(tokenize, name): "s"
    for name in ("FSTRING_START", "FSTRING_MIDDLE", "FSTRING_END")
    if hasattr(tokenize, name)
}


def lines_of(source: str) -> list[str]:
    """The lines as Python numbers them: split at newlines alone, not at every separator Unicode has.

    Examples
    --------
    >>> lines_of("a\\nb\\n"), lines_of("")
    (['a', 'b'], [])
    """
    return source.replace("\r\n", "\n").rstrip("\n").split("\n") if source.strip("\n") else []


def colours(source: str) -> list[list[list[int | str]]]:
    """Spans [start, end, kind] of every line; what follows a piece that is no Python stays uncoloured.

    Examples
    --------
    >>> colours("if x:  # why")
    [[[0, 2, 'k'], [7, 12, 'c']]]
    """
    lines = lines_of(source)
    spans: list[list[list[int | str]]] = [[] for _ in lines]
    try:
        for token in tokenize.generate_tokens(io.StringIO("\n".join(lines) + "\n").readline):
            kind = KINDS.get(token.type) or ("k" if keyword.iskeyword(token.string) else "")
            (first, start), (last, end) = token.start, token.end
            for row in range(first, last + 1) if kind else ():
                if row <= len(lines):
                    stop = end if row == last else len(lines[row - 1])
                    spans[row - 1].append([start if row == first else 0, stop, kind])
    except (tokenize.TokenError, SyntaxError, ValueError):
        pass  # a magic, a cell that is cut off: plain text is still right
    return spans
