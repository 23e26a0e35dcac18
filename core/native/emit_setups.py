"""Prints the table of the extension's setup functions, when it is built.

A file of `binding/` or `sampler/` that adds something to the module has `int x_setup(PyObject *module)`; the functions
are found in the sources, so that nobody keeps a list.
"""

from __future__ import annotations

import re
from pathlib import Path

# in this order: a room's setup may use what those before it have set up
ROOMS = ("sampler", "binding/types", "binding/graph", "binding/adapters", "binding/calls")
_NATIVE = Path(__file__).parent
_SETUP = re.compile(r"^int (\w+_setup)\(PyObject \*module\) \{", re.MULTILINE)


def setups(native: Path = _NATIVE) -> list[str]:
    """Return the names of the setup functions in the C files of `native`, room by room and file by file.

    >>> names = setups()
    >>> names.index("view_steps_setup") < names.index("structured_call_setup") < names.index("operators_setup")
    True
    """
    files = [path for room in ROOMS for path in sorted((native / room).glob("*.c"))]
    return [name for path in files for name in _SETUP.findall(path.read_text(encoding="utf-8"))]


def sources(native: Path = _NATIVE) -> dict[str, str]:
    """Return the printed file: {file name: C text}."""
    names = [*setups(native), "declared_setup"]  # the last stands in adapters.c, printed by emit_adapters
    lines = [
        "/* Printed by core/native/emit_setups.py from the functions found in the sources; do not edit. */",
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
