"""Prints the table of the binding's setup functions, when the extension is built.

A file of `binding/` that adds something to the module has `int x_setup(PyObject *module)`; the functions are found in
the sources, so that nobody keeps a list.
"""

from __future__ import annotations

import re
from pathlib import Path

ROOMS = ("types", "graph", "adapters", "calls")  # a room's setup may use what those before it have set up
_SETUP = re.compile(r"^int (\w+_setup)\(PyObject \*module\) \{", re.MULTILINE)


def setups(binding: Path) -> list[str]:
    """Return the names of the setup functions in the C files of `binding`, room by room and file by file.

    >>> names = setups(Path(__file__).parent / "binding")
    >>> names.index("view_steps_setup") < names.index("structured_call_setup") < names.index("operators_setup")
    True
    """
    files = [path for room in ROOMS for path in sorted((binding / room).glob("*.c"))]
    return [name for path in files for name in _SETUP.findall(path.read_text(encoding="utf-8"))]


def sources(binding: Path = Path(__file__).parent / "binding") -> dict[str, str]:
    """Return the printed file: {file name: C text}."""
    names = [*setups(binding), "declared_setup"]  # the last stands in adapters.c, printed by emit_adapters
    lines = [
        "/* Printed by core/native/emit_setups.py from the functions found in binding/; do not edit. */",
        '#include "binding/setups.h"',
        "",
        *[f"int {name}(PyObject *module);" for name in names],
        "",
        "const module_setup module_setups[] = {",
        *[f"    {name}," for name in names],
        "    0,",
        "};",
        "",
    ]
    return {"setups.c": "\n".join(lines)}
