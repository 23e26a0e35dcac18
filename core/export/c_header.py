"""The header of a program in C: its inputs, outputs, sizes and state, what it has to be given, and an example."""

from __future__ import annotations

from typing import Any

from .ir import Value
from .plan import C_TYPES
from .sizes import written

FLAGS = "-std=gnu11 -O3 -march=native -fno-math-errno -fno-trapping-math -ffp-contract=fast"
"""What the kernels are written for: without the two about errno and traps, loops with selects do not vectorise."""


def header_text(writer: Any, embed: bool) -> str:
    """Return model.h."""
    program, name = writer.program, writer.name
    upper = name.upper()
    sizes = "".join(f"     sizes[{k}]  {n}: axis {axis} of inputs[{i}]\n"
                    for k, (n, (i, axis)) in enumerate(program.sizes.items()))  # fmt: skip
    guards = "".join(f"     where {guard}\n" for guard in program.guards)
    inputs = "".join(f"     inputs[{k}]   {_said(v)}\n" for k, v in enumerate(program.inputs))
    count = len(program.outputs)
    outputs = "".join(f"     outputs[{k}]  {_said(v)}\n" for k, v in enumerate(program.outputs))
    moved = "".join(_update(writer, count + k, old, new) for k, (old, new) in enumerate(program.updates))
    offsets = "".join(f"#define {upper}_STATE_{_upper(n)} {at} /* where it begins among the weights, in bytes */\n"
                      for n, at in writer.state_offsets.items())  # fmt: skip
    weights = f"extern const void *const {name}_weights; /* {name}_weights.c */\n" if embed else ""
    source = f"{name}_weights" if embed else "weights"
    files = f"{name}.c {name}_weights.c" if embed else f"{name}.c"
    return f"""/* {program.name} as plain C, written by gradlab. It needs libc and libm, a compiler with GCC's vector
   extensions (gcc, clang), and no heap: all memory is the caller's.

   Compile:  cc {FLAGS} -c {files}
             (without -march=native it runs on any processor of the kind, and slower)

   Sizes, which may be others in each run:
{sizes or "     none: sizes may be NULL" + chr(10)}{guards}
   Inputs, row by row:
{inputs}
   Outputs, row by row; they may overlap neither each other nor the inputs:
{outputs}{moved}
   Weights: {"linked in" if embed else "the bytes of weights.bin"}: {len(writer.blob)}, aligned to 8.
   Arena: {name}_arena(sizes) bytes, aligned to 8; 64 is faster.
   Calls with an arena each may run at the same time.

   Example:
     int64_t sizes[] = {{{", ".join("1" for n in program.sizes) or "0"}}}; // {", ".join(program.sizes) or "none"}
     void *arena = aligned_alloc(64, ({name}_arena(sizes) + 63) / 64 * 64);
     const void *inputs[] = {{{", ".join(v.name.replace(".", "_") for v in program.inputs) or "NULL"}}};
     void *outputs[] = {{{", ".join(f"out{k}" for k in range(count + len(program.updates)))}}};
     int error = {name}_run(arena, {source}, sizes, inputs, outputs);
*/
#ifndef {upper}_H
#define {upper}_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {{
#endif

#define {upper}_INPUTS {len(program.inputs)}
#define {upper}_OUTPUTS {count + len(program.updates)}
#define {upper}_SIZES {len(program.sizes)}
#define {upper}_WEIGHT_BYTES {len(writer.blob)}
{offsets}{weights}
enum {{
    {upper}_BAD_SIZE = 1,  /* a size is negative, or does not fit what the model does */
    {upper}_BAD_INDEX = 2, /* an index among the inputs is out of range; the outputs are undefined */
}};

/* The bytes of the arena at these sizes; 0 for sizes that do not fit. */
size_t {name}_arena(const int64_t *sizes);

/* Run the model. Returns 0, or an error code. */
int {name}_run(void *arena, const void *weights, const int64_t *sizes, const void *const *inputs,
{" " * (len(name) + 9)}void *const *outputs);

#ifdef __cplusplus
}}
#endif

#endif
"""


def _said(v: Value) -> str:
    shape = ", ".join(written(d, lambda x: x.name) for d in v.shape)
    return f"{v.name}: {C_TYPES[v.dtype]}{' (0 or 1)' if v.dtype == 'bool' else ''} [{shape}]"


def _update(writer: Any, k: int, old: Value, new: Value) -> str:
    said = f"     outputs[{k}]  {_said(new)}, the next value of {old.name}"
    if old.name in writer.state_offsets:
        at = f"{writer.name.upper()}_STATE_{_upper(old.name)}"
        return f"{said}:\n                 to go on from it, let this be (char *)weights + {at}\n"
    return f"{said}; this may be that input itself\n"


def _upper(name: str) -> str:
    return "".join(c.upper() if c.isalnum() else "_" for c in name)
