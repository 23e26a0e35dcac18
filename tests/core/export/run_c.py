"""Compiles a program written as C, with a `main` that knows files alone, and runs it in a process of its own."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

FLAGS = ("-std=gnu11", "-Wall", "-Wextra", "-Werror", "-fno-math-errno", "-fno-trapping-math")
BUILDS: dict[str, tuple[str, ...]] = {
    "gcc": ("gcc", "-O3", "-march=native"),
    "sanitized": ("gcc", "-O1", "-g", "-march=native", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"),
    "clang": ("clang", "-O2", "-march=native"),
    "plain": ("gcc", "-O2"),  # for any x86-64: vectors of four
    "aarch64": ("aarch64-linux-gnu-gcc", "-O2"),
}
_RUNNERS = {"aarch64": ("qemu-aarch64", "-L", "/usr/aarch64-linux-gnu")}

MAIN = r"""
#include "model.h"

#include <stdio.h>
#include <stdlib.h>

static void *read_file(const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file) exit(101);
    fseek(file, 0, SEEK_END);
    const size_t count = (size_t)ftell(file);
    rewind(file);
    char *bytes = malloc(count ? count : 1);
    if (fread(bytes, 1, count, file) != count) exit(102);
    fclose(file);
    return bytes;
}

/* main weights size ... input-file ... output-file output-bytes ... */
int main(int count, char **argv) {
    int64_t sizes[MODEL_SIZES + 1] = {0};
    const void *inputs[MODEL_INPUTS + 1] = {0};
    void *outputs[MODEL_OUTPUTS + 1] = {0};
    char **next = argv + 1;
    void *weights = read_file(*next++);
    for (int k = 0; k < MODEL_SIZES; k++) sizes[k] = atoll(*next++);
    for (int k = 0; k < MODEL_INPUTS; k++) inputs[k] = read_file(*next++);
    char **out = next;
    for (int k = 0; k < MODEL_OUTPUTS; k++) outputs[k] = malloc((size_t)atoll(out[2 * k + 1]) + 1);
    const size_t bytes = model_arena(sizes);
    void *arena = malloc(bytes ? bytes : 1);
    for (size_t k = 0; k < bytes; k++) ((char *)arena)[k] = (char)255; /* NaN, for what reads before it writes */
    int error = 0;
    for (int turn = 0; turn < 2 && !error; turn++) error = model_run(arena, weights, sizes, inputs, outputs);
    for (int k = 0; k < MODEL_OUTPUTS && !error; k++) {
        FILE *file = fopen(out[2 * k], "wb");
        fwrite(outputs[k], 1, (size_t)atoll(out[2 * k + 1]), file);
        fclose(file);
    }
    for (int k = 0; k < MODEL_INPUTS; k++) free((void *)inputs[k]);
    for (int k = 0; k < MODEL_OUTPUTS; k++) free(outputs[k]);
    free(arena), free(weights);
    return count < 2 ? 103 : error;
}
"""


def is_there(build: str) -> bool:
    """Return whether the tools of a build are installed."""
    tools = (BUILDS[build][0], *_RUNNERS.get(build, ())[:1])
    return all(shutil.which(t) for t in tools)


def compiled(program: Any, folder: Path, build: str) -> Path:
    """Write and compile a program; return the executable."""
    program.to_c(folder)
    (folder / "main.c").write_text(MAIN)
    command = [*BUILDS[build], *FLAGS, "main.c", "model.c", "-o", "main", "-lm"]
    subprocess.run(command, cwd=folder, check=True)
    return folder / "main"


def ran(executable: Path, program: Any, arrays: Sequence[Any], wanted: Sequence[Any], build: str,
        sizes: Sequence[int] | None = None) -> tuple[int, list[Any]]:  # fmt: skip
    """Run an executable on files of these arrays; return its exit status and outputs shaped as `wanted`."""
    folder = executable.parent
    if sizes is None:
        sizes = list(program.sizes_of([a.shape for a in arrays]).values())
    given = ["weights.bin", *map(str, sizes)]
    for k, a in enumerate(arrays):
        np.ascontiguousarray(a).tofile(folder / f"in{k}.bin")
        given.append(f"in{k}.bin")
    for k, w in enumerate(wanted):
        given += [f"out{k}.bin", str(w.nbytes)]
    command = [*_RUNNERS.get(build, ()), "./main", *given]
    found = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert "rror" not in found.stderr, found.stderr[-3000:]
    if found.returncode:
        return found.returncode, []
    outputs = [np.fromfile(folder / f"out{k}.bin", w.dtype).reshape(w.shape) for k, w in enumerate(wanted)]
    return 0, outputs


def flat(x: Any, is_tensor: Any) -> list[Any]:
    """Return the tensors in lists, tuples and dicts as arrays."""
    if is_tensor(x):
        return [x.detach().numpy().copy()]
    parts = x.values() if isinstance(x, dict) else x if isinstance(x, list | tuple) else ()
    return [a for part in parts for a in flat(part, is_tensor)]
