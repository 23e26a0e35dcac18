"""Registers, stack, spills and shared memory of a compiled kernel, read from its binary; no GPU is asked.

Sources: registers and stack frames stand in the cubin's ELF (section flags of .text, records of .nv.info: CUDA Binary
Utilities); spills are ptxas's own figures; AMD's stand in the assembly's metadata (LLVM AMDGPU user guide).
"""

from __future__ import annotations

import os
import re
import struct
import subprocess
import tempfile
from dataclasses import dataclass
from typing import Any

# Bytes of shared memory that one block may ask for (CUDA programming guide, compute capabilities; MI300 guide).
SHARED_LIMIT = {"sm_80": 163 * 1024, "sm_86": 99 * 1024, "sm_89": 99 * 1024, "sm_90": 227 * 1024,
                "sm_100": 227 * 1024, "sm_120": 99 * 1024, "gfx942": 64 * 1024, "sm_70": 96 * 1024}  # fmt: skip


@dataclass(frozen=True)
class Resources:
    """What one program of a kernel occupies. Spills are bytes stored to memory for want of registers."""

    registers: int
    shared_bytes: int
    spill_bytes: int


def resources_of(compiled: Any) -> Resources:
    """Return the resources of a `CompiledKernel`, for NVIDIA or AMD."""
    target = compiled.metadata.target
    if target.backend == "hip":
        text = compiled.asm["amdgcn"]
        spilled = _number(r"\.vgpr_spill_count:\s+(\d+)", text) * 4
        return Resources(_number(r"\.vgpr_count:\s+(\d+)", text), compiled.metadata.shared, spilled)
    registers, frame = _read_cubin(compiled.asm["cubin"], compiled.metadata.name)
    # A kernel without a stack frame cannot spill; ptxas takes 50 ms and more, so ask only where there is one.
    spilled = _ptxas_spills(compiled.asm["ptx"], target.arch) if frame else 0
    return Resources(registers, compiled.metadata.shared, spilled)


def _number(pattern: str, text: str) -> int:
    found = re.search(pattern, text)
    return int(found.group(1)) if found else 0


def _read_cubin(cubin: bytes, kernel: str) -> tuple[int, int]:
    """Registers a thread and bytes of stack frame, from the 64-bit ELF."""
    if cubin[:5] != b"\x7fELF\x02":
        raise ValueError(f"the cubin of {kernel} is no 64-bit ELF file")
    table = struct.unpack_from("<Q", cubin, 0x28)[0]
    entry, count, names_index = struct.unpack_from("<HHH", cubin, 0x3A)
    sections = [struct.unpack_from("<IIQQQQIIQQ", cubin, table + i * entry) for i in range(count)]
    names_at = sections[names_index][4]

    def text_at(offset: int) -> str:
        return cubin[offset : cubin.index(b"\0", offset)].decode()

    symbols: dict[int, str] = {}
    for section in sections:
        if section[1] == 2:  # SHT_SYMTAB; its link is the string table
            strings = sections[section[6]][4]
            for i in range(section[5] // 24):
                name = struct.unpack_from("<I", cubin, section[4] + i * 24)[0]
                symbols[i] = text_at(strings + name)
    registers = frame = 0
    for section in sections:
        name = text_at(names_at + section[0])
        if name == f".text.{kernel}":
            registers = max(registers, section[7] >> 24)  # older tools keep the count here, newer in a record
        elif name == ".nv.info":
            found = _records(cubin, section[4], section[4] + section[5], symbols, kernel)
            registers, frame = max(registers, found.get(0x2F, 0)), found.get(0x11, 0)
    return registers, frame


def _records(cubin: bytes, at: int, end: int, symbols: dict[int, str], kernel: str) -> dict[int, int]:
    """Return the kernel's records of .nv.info by attribute: 0x2F EIATTR_REGCOUNT, 0x11 EIATTR_FRAME_SIZE."""
    values = {}
    while at + 4 <= end:
        form, attribute, size = cubin[at], cubin[at + 1], struct.unpack_from("<H", cubin, at + 2)[0]
        at += 4
        if form == 4:  # EIFMT_SVAL: `size` bytes follow; in the other forms the value stands in the header
            if size >= 8:
                symbol, value = struct.unpack_from("<II", cubin, at)
                if symbols.get(symbol) == kernel:
                    values[attribute] = value
            at += size
    return values


def _ptxas_spills(ptx: str, arch: int) -> int:
    from triton.backends.nvidia.compiler import get_ptxas

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "kernel.ptx")
        with open(path, "w") as file:
            file.write(ptx)
        name = f"sm_{arch}{'a' if arch >= 90 else ''}"
        command = [get_ptxas(arch).path, "-v", f"--gpu-name={name}", path, "-o", path + ".cubin"]
        done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"ptxas failed for {name}: {done.stderr.strip()[-500:]}")
    return _number(r"(\d+) bytes spill stores", done.stderr)
