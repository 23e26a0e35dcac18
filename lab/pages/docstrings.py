"""Docstrings as reStructuredText: what they mean by their marks, and nothing that the markup would take for its own.

A docstring here is paragraphs with `names` and ``expressions`` in backticks, *Shapes* and its kin, ``name : what``
lines, lists, examples, and sections underlined with dashes.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable

Link = Callable[[str], str]
"""From a name in backticks to the public name that it stands for, or nothing."""
_CODE = re.compile(r"``(.+?)``|`([^`]+)`", re.S)
_MARK = re.compile(r"\*([A-Z][A-Za-z ]*)\*")
_SPECIAL = re.compile(r"([\\*|`_\[\]<>])")
_TERM = re.compile(r"^(\*{0,2}\w[\w.]*(?:, \*{0,2}\w[\w.]*)*) : (.*)$", re.S)
_BULLET = re.compile(r"^(?:[-*]|\d+\.) ")


def no_link(name: str) -> str:
    """Link nothing."""
    return ""


def inline(text: str, link: Link = no_link) -> str:
    """Return a paragraph's text with its code and marks, everything else as it stands.

    >>> inline("`x` * 2 of *Shapes*: a_, see `softmax`", lambda name: "core.softmax" if name == "softmax" else "")
    '``x`` \\\\* 2 of **Shapes**: a\\\\_, see :py:obj:`softmax <core.softmax>`'
    """
    parts, at = [], 0
    for found in _CODE.finditer(text):
        parts.append(_plain(text[at : found.start()]))
        code = " ".join((found.group(1) or found.group(2)).split())
        target = link(code) if found.group(2) else ""
        role = f":py:obj:`{code} <{target}>`" if target else _literal(code)
        before = "" if not parts[-1] or parts[-1][-1].isspace() else "\\ "
        after = "" if text[found.end() : found.end() + 1] in (*" \n\t.,;:)!?'\"", "") else "\\ "
        parts.append(before + role + after)
        at = found.end()
    return "".join(parts) + _plain(text[at:])


def _literal(code: str) -> str:
    code = code.strip()
    return f"``{code}``" if code and not code.endswith("\\") and "``" not in code else _plain(code)


def _plain(text: str) -> str:
    pieces = _MARK.split(text)  # every second one is what stood between stars
    return "".join(f"**{p}**" if k % 2 else _SPECIAL.sub(r"\\\1", p) for k, p in enumerate(pieces))


def rst(doc: str, link: Link = no_link) -> str:
    """Return a whole docstring.

    >>> print(rst("Give `x`.\\n\\nn : how many\\nm : of what"))
    Give ``x``.
    <BLANKLINE>
    - ``n``: how many
    - ``m``: of what
    >>> rst(">>> 1 + 1\\n2")
    '.. code-block:: pycon\\n\\n   >>> 1 + 1\\n   2'
    """
    return "\n\n".join(_block(block, link) for block in _blocks(doc))


def _blocks(doc: str) -> list[str]:
    """Cut at blank lines; one in front of an indented line stays inside an example or a literal block."""
    found: list[str] = []
    for block in re.split(r"\n[ \t]*\n", doc.expandtabs().strip("\n")):
        text = block.strip("\n")
        if not text.strip():
            continue
        goes_on = found and text.startswith("    ") and (found[-1].startswith("    ") or found[-1].startswith(">>>"))
        if goes_on:
            found[-1] += "\n\n" + text
        else:
            found.append(text)
    return found


def _block(block: str, link: Link) -> str:
    lines = block.splitlines()
    if len(lines) > 1 and set(lines[1].strip()) == {"-"}:
        rest = "\n".join(lines[2:])
        title = f"**{_plain(lines[0].strip())}**"
        return title if not rest else f"{title}\n\n{_section(rest, link)}"
    if lines[0].startswith(">>>"):
        return directive("code-block", "pycon", block)
    begins = next((k for k, line in enumerate(lines) if line.startswith(">>>")), 0)
    if begins:
        return _block("\n".join(lines[:begins]), link) + "\n\n" + _block("\n".join(lines[begins:]), link)
    if lines[0].startswith("    ") or sum("   " in line.strip() for line in lines) > 1:
        return directive("code-block", "text", textwrap.dedent(block))
    if _TERM.match(lines[0]):
        return _terms(lines, link)
    if _BULLET.match(lines[0]):
        return "\n".join(_item(line, link) for line in lines)
    return inline(re.sub(r"\s*\n\s*", "\n", block).strip().removesuffix("::"), link)


def _item(line: str, link: Link) -> str:
    """Of a list: a line that begins an item, or one that goes on with it."""
    found = _BULLET.match(line)
    return found.group() + inline(line[found.end() :], link) if found else "  " + inline(line.strip(), link)


def _section(rest: str, link: Link) -> str:
    """Of a section underlined with dashes: names at the margin, what they are about indented below; or plain text."""
    if rest.startswith(">>>") or not re.search(r"^ {2,}\S", rest, re.M):
        return _block(rest, link)
    parts = [p for p in re.split(r"^(?=\S)", rest, flags=re.M) if p.strip()]
    return "\n".join(f"- {_literal(name)}: {inline(' '.join(about.split()), link)}"
                     for name, _, about in (p.partition("\n") for p in parts))  # fmt: skip


def _terms(lines: list[str], link: Link) -> str:
    """Of lines ``name : what``: a list. One that does not begin so goes on with the last."""
    items: list[list[str]] = []
    for line in lines:
        found = _TERM.match(line)
        if found:
            items.append([_literal(found.group(1)), found.group(2).strip()])
        else:
            items[-1][1] += " " + line.strip()
    return "\n".join(f"- {name}: {inline(about, link)}" for name, about in items)


def directive(name: str, argument: str, body: str) -> str:
    """Return a directive with its body.

    >>> directive("code-block", "text", "a")
    '.. code-block:: text\\n\\n   a'
    """
    return f".. {name}:: {argument}\n\n" + textwrap.indent(body, "   ")


def sentence(doc: str) -> str:
    """Return the first sentence, which says what a thing is; a line where it does not end.

    >>> sentence("Return e.g. one.\\n\\nMore."), sentence("Two, and so\\non. More.")
    ('Return e.g. one.', 'Two, and so on.')
    """
    first = " ".join((_blocks(doc) or [""])[0].split())
    first = re.split(r" \*(?:Raises|Shapes|Source)\*", first)[0]
    end = re.search(r"(?<!e\.g)(?<!i\.e)(?<!resp)[.:;](?=\s+[A-Z`])", first)
    return first[: end.start()] + "." if end else first
