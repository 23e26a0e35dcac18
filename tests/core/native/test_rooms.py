"""The rooms of the C code, read from the sources: each file uses what its own room and those below it define.

Two printed tables look up at everybody: that of the setup functions (generated/setups.c), which module.c alone reads,
and that of the parsers (generated/parsers_table.c), which binding/calls/public_function.c alone reads.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path

from core.native import emit_setups

NATIVE = Path(__file__).parents[3] / "core" / "native"
# From the bottom; each may use those before it. What is printed stands beside the kernels.
ROOMS = (
    "runtime",
    "kernels",
    "sampler",
    "binding/types",
    "binding/graph",
    "binding/adapters",
    "binding/calls",
    "binding",
)
CIRCLE = 3  # files that use one another, at most

# A function or a variable that other files see: it begins at the left margin, and is neither static nor only declared.
_DEFINITION = re.compile(
    r"^(?!static\b|extern\b|typedef\b|struct\b|enum\b|union\b|else\b|return\b|#)"
    r"(?:const )?\w[\w ]*?[ *]+(?:const )?(\w+)\s*(?:\([^;{}]*\)\s*\{|(?:\[[^\]]*\])*\s*(?:=|;))",
    re.MULTILINE,
)
_INLINE = re.compile(r"^static inline [^(;]*?\b(\w+)\([^{;]*\)\s*\{(.*?)(?:\}$)", re.MULTILINE | re.DOTALL)
_INCLUDE = re.compile(r'^#include "([\w./]+)"', re.MULTILINE)


def room(file: str) -> int:
    """Return the number of a file's room, counted from the bottom."""
    folder = file.rpartition("/")[0]
    return ROOMS.index("kernels" if folder == "generated" else folder)


def plain(text: str) -> str:
    """Return C text without comments, strings and continued lines' ends."""
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.DOTALL)
    return re.sub(r'"(?:\\.|[^"\\\n])*"', '""', text)


@functools.cache
def sources() -> dict[str, str]:
    """Return the plain text of every C file that people write, by its path under core/native."""
    paths = [p for p in sorted(NATIVE.rglob("*.c")) if p.parent.name != "generated"]
    return {str(p.relative_to(NATIVE)): plain(p.read_text()) for p in paths}


@functools.cache
def owners() -> dict[str, str]:
    """Return which file defines a name that others see."""
    found: dict[str, str] = {}
    for file, text in sources().items():
        for name in _DEFINITION.findall(text):
            found[name] = file
    return found


@functools.cache
def headers(path: str) -> frozenset[str]:
    """Return the headers that a file includes, by whatever way."""
    found: set[str] = set()
    for name in _INCLUDE.findall((NATIVE / path).read_text()):
        if (NATIVE / name).exists() and name.endswith(".h"):
            found |= {name} | headers(name)
    return frozenset(found)


@functools.cache
def words(path: str) -> frozenset[str]:
    """Return the names that stand in a file, comments and strings left out."""
    return frozenset(re.findall(r"\b\w+\b", plain((NATIVE / path).read_text())))


@functools.cache
def declared(header: str) -> frozenset[str]:
    """Return the functions and variables of other files that a header declares; parameters are none."""
    text = re.sub(r"^#.*(?:\\\n.*)*$", "", plain((NATIVE / header).read_text()), flags=re.MULTILINE)
    statements = re.findall(r"^(?!static\b|typedef\b|enum\b|\s|\})([^;{}]*);", text, re.MULTILINE)
    return frozenset(name for one in statements for name in re.findall(r"\w+", re.sub(r"\([^()]*\)", "", one)))


@functools.cache
def inlined() -> dict[str, frozenset[str]]:
    """Return what the inline functions of headers use, by their names."""
    bodies = [body for path in NATIVE.rglob("*.h") for body in _INLINE.findall(plain(path.read_text()))]
    return {name: frozenset(re.findall(r"\b\w+\b", text)) for name, text in bodies}


@functools.cache
def arrows() -> dict[str, dict[str, set[str]]]:
    """Return what each file uses of others: {file: {other file: names}}.

    A use is a name of another file's that stands in this one, or in an inline function that it calls, and that a header
    declares which it includes. Names that kernels' macros put together are not seen.
    """
    own = owners()
    found: dict[str, dict[str, set[str]]] = {}
    for file in sources():
        used = found.setdefault(file, {})
        known = frozenset().union(*(declared(h) for h in headers(file)))
        names = words(file)
        for _ in range(3):  # inline functions that call one another
            names = names.union(*(inlined()[name] for name in names & inlined().keys()))
        for name in names & known & own.keys():
            if own[name] != file:
                used.setdefault(own[name], set()).add(name)
    return found


def circles() -> list[list[str]]:
    """Return the groups of files each of which reaches all others of its group (Tarjan's components)."""
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    groups: list[list[str]] = []

    def visit(file: str) -> None:
        number[file] = low[file] = len(number)
        stack.append(file)
        for other in arrows()[file]:
            if other not in number:
                visit(other)
                low[file] = min(low[file], low[other])
            elif other in stack:
                low[file] = min(low[file], number[other])
        if low[file] == number[file]:
            at = stack.index(file)
            groups.append(sorted(stack[at:]))
            del stack[at:]

    for file in arrows():
        if file not in number:
            visit(file)
    return [group for group in groups if len(group) > 1]


def test_every_c_file_lies_in_a_room() -> None:
    assert {file.rpartition("/")[0] for file in sources()} == set(ROOMS)


def test_a_file_uses_its_room_and_those_below() -> None:
    upward = [
        f"{file} uses {other}: {sorted(names)}"
        for file, used in arrows().items()
        for other, names in used.items()
        if room(other) > room(file)
    ]
    assert not upward, "\n".join(upward)


def test_no_circle_is_large() -> None:
    assert [c for c in circles() if len(c) > CIRCLE] == []


def test_headers_follow_the_rooms() -> None:
    upward, floors = [], ("runtime", "kernels", "sampler", "binding")
    for path in sorted(NATIVE.rglob("*.[ch]")):
        folder = str(path.parent.relative_to(NATIVE))
        if folder == "generated":
            continue
        for named in re.findall(r'^#include "(\w+)/', path.read_text(), re.MULTILINE):
            if named == "generated":  # what is printed for binding/calls
                assert folder in ("binding/calls", "kernels"), path
            elif floors.index(named) > floors.index(folder.partition("/")[0]):
                upward.append(f"{path.relative_to(NATIVE)} includes {named}/")
    assert not upward, "\n".join(upward)


def test_the_arrows_are_seen() -> None:
    """The reading itself: arrows that are there are found, in functions, variables and types."""
    found = arrows()
    assert "item_of" in found["binding/calls/index.c"]["binding/types/items.c"]
    assert "binding" in found["binding/graph/state.c"]["binding/types/state.c"]
    assert "Map_Type" in found["binding/graph/elementwise_call.c"]["binding/graph/map_object.c"]
    assert "parallel_for" in found["kernels/copy.c"]["runtime/parallel.c"]
    assert "path_counts" in found["binding/calls/public_function.c"]["runtime/paths.c"]  # by an inline function
    assert sum(len(used) for used in found.values()) > 150


def test_one_file_reads_each_printed_table() -> None:
    for name, reader in (("module_setups", "binding/module.c"), ("parsers", "binding/calls/public_function.c")):
        assert [file for file in sources() if name in words(file)] == [reader]


def test_setup_functions_are_called_from_the_table_alone() -> None:
    names = emit_setups.setups()
    assert len(names) == len(set(names)) > 30
    calls = [
        f"{file}: {name}"
        for file, text in sources().items()
        for name in names
        if len(re.findall(rf"\b{name}\b", text)) > (owners().get(name) == file)
    ]
    assert not calls, "a setup function is called beside the table:\n" + "\n".join(calls)
    printed = emit_setups.sources()["setups.c"]
    assert all(f"    {name},\n" in printed for name in names)


# What changes while the process lives and stands outside of the binding: {file: name, with its reason}
STATICS = {
    "binding/types/tensor_node_types.c": {"tensor_settable", "node_settable"},  # tables whose names are interned once
    "binding/module.c": {"started"},  # whether threads and memory were set up
}
_TABLES = {"PyMethodDef", "PyTypeObject", "PyGetSetDef", "PyMemberDef", "PyModuleDef", "PyModuleDef_Slot"}
_STATIC = re.compile(
    r"^ *static (?!inline\b)(?P<type>(?:struct )?\w+)(?P<rest>[^(;{=]*)"
    r"(?:;|=|\{(?=[^()]*\} *\w+(?:\[\w*\])*;))",
    re.MULTILINE,
)


def test_what_changes_is_in_the_binding() -> None:
    """Files of types, graph and adapters keep no variable of their own: all that changes is a field of `binding`."""
    found = []
    for file, text in sources().items():
        if not file.startswith("binding/") or file.startswith("binding/calls/"):
            continue
        for match in _STATIC.finditer(text):
            kind, rest = match["type"].removeprefix("struct "), match["rest"]
            names = set(re.findall(r"(\w+)(?:\[\w*\])*\s*(?:,|$)", rest.strip()))
            table = kind in _TABLES and "*" not in rest
            if table or re.search(r"\bconst\b", kind + rest) or names == {"names"} or names == {"keywords"}:
                continue  # keywords of PyArg_Parse are not const, and nobody writes them
            if not names <= STATICS.get(file, set()):
                found.append(f"{file}: {match[0].strip()}")
    assert not found, "\n".join(found)
