"""Where a probe stands so that whoever runs a fault's line passes it: a statement or an expression that notes a number.

One recording of the tests, with a probe for each fault of a run, tells which tests pass which fault. A probe may be
passed more often than its line, never less: then the other tests cannot notice the fault. Where no such place is found
(defaults of arguments, decorators, C's tables at file scope), there is no probe, and all tests are asked.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

from .faults import TOKEN, Fault

SIZE = 4096  # bytes of the file that all processes of a recording share: one a probe, the last 8 count ended tests
MODULE = "gradlab_probe"

Insertion = tuple[int, str]


def module(memory: Path) -> str:
    """Return the text of the module that Python's probes call; processes that tests start find it as well."""
    return (
        "import mmap\n"
        f"with open({str(memory)!r}, 'r+b') as file:\n"
        f"    passed = mmap.mmap(file.fileno(), {SIZE})\n"
        "def passes(number):\n"
        "    passed[number] = 1\n"
        "    return True\n"
    )


def c_module(memory: Path) -> str:
    """Return the text of the C file that has the bytes of C's probes."""
    path = str(memory).replace("\\", "\\\\").replace('"', '\\"')
    return (
        "#include <fcntl.h>\n#include <sys/mman.h>\n#include <unistd.h>\n"
        f"static unsigned char nowhere[{SIZE}];\n"
        f"unsigned char *{MODULE} = nowhere;\n"
        "__attribute__((constructor)) static void share(void) {\n"
        f'    int file = open("{path}", O_RDWR | O_CLOEXEC);\n'
        "    if (file < 0) return;\n"
        f"    void *shared = mmap(0, {SIZE}, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);\n"
        f"    if (shared != MAP_FAILED) {MODULE} = shared;\n"
        "    close(file);\n"
        "}\n"
    )


def probe(fault: Fault, text: str, number: int) -> list[Insertion] | None:
    """Return what to insert where, so that whoever runs the fault's line notes `number`; None where that cannot be."""
    if fault.file.endswith(".py"):
        return _python(text, fault.start, fault.end, number)
    return _c(text, fault.start, number)


def inserted(text: str, insertions: list[Insertion]) -> str:
    """Return the text with all insertions."""
    for at, new in sorted(insertions, reverse=True):
        text = text[:at] + new + text[at:]
    return text


# -- Python -----------------------------------------------------------------------------------------------------------


def _python(text: str, start: int, end: int, number: int) -> list[Insertion] | None:
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    lines = text.splitlines()

    def span(node: ast.AST) -> tuple[int, int]:
        rows = (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]
        first, last = (starts[row - 1] + len(lines[row - 1].encode()[:column].decode()) for row, column in rows)
        return first, last

    def holds(node: ast.AST) -> bool:
        if not hasattr(node, "lineno"):
            return any(holds(child) for child in ast.iter_child_nodes(node))
        first, last = span(node)
        return first <= start and end <= last

    path: list[ast.AST] = [ast.parse(text)]
    while inner := [child for child in ast.iter_child_nodes(path[-1]) if holds(child)]:
        path.append(inner[0])
    call = f'__import__("{MODULE}").passes({number})'
    for node in reversed(path):
        expression: ast.AST | None = None
        if isinstance(node, ast.Lambda):
            expression = node.body
        elif isinstance(node, ast.If | ast.While):
            expression = node.test
        elif isinstance(node, ast.For | ast.AsyncFor):
            expression = node.iter
        elif isinstance(node, ast.withitem):
            expression = node.context_expr
        elif isinstance(node, ast.Match):
            expression = node.subject
        elif isinstance(node, ast.stmt):
            if hasattr(node, "body"):
                return None  # the header of a function, a class, a try
            return [(span(node)[0], f"{call}; ")]
        elif isinstance(node, ast.match_case | ast.ExceptHandler):
            return None
        if expression is not None and holds(expression):
            first, last = span(expression)
            return [(first, f"({call} and ("), (last, "))")]
    return None


# -- C ----------------------------------------------------------------------------------------------------------------


def _c(text: str, start: int, number: int) -> list[Insertion] | None:
    """Return a probe at the head of the function that holds `start`, or of an `if` in it, but never inside a loop.

    A loop with a store in it is another loop to the compiler, and a `switch` is entered below its head.
    """
    bare = list(text)
    for token in TOKEN.finditer(text):
        if token.lastgroup == "skip":
            bare[token.start() : token.end()] = re.sub(r"[^\n]", " ", token.group())
    code = "".join(bare)
    open_blocks: list[int] = []
    for at in range(start):
        if code[at] == "{":
            open_blocks.append(at)
        elif code[at] == "}" and open_blocks:
            open_blocks.pop()
    if not open_blocks or _before(code, open_blocks[0]) != ")" or "\n}" in code[open_blocks[0] : start]:
        return None
    chosen = open_blocks[0]
    for block in open_blocks[1:]:
        if _before(code, block) not in ("if", "else"):
            break
        chosen = block
    declared = f"extern unsigned char *{MODULE} __attribute__((weak));"
    return [(chosen + 1, f" {declared} if (&{MODULE}) {MODULE}[{number}] = 1; ")]


def _before(code: str, brace: int) -> str:
    """Return what opens a block: the keyword, or ``)`` for a function, or nothing for a table or a struct."""
    head = code[:brace].rstrip()
    if not head.endswith(")"):
        word = re.search(r"\b(else|do)$", head)
        return word.group() if word else ""
    depth = 0
    for at in range(len(head) - 1, -1, -1):
        depth += (head[at] == ")") - (head[at] == "(")
        if not depth:
            break
    word = re.search(r"\b(if|for|while|switch)$", head[:at].rstrip())
    return word.group() if word else ")"
