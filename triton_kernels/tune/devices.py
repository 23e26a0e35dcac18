"""What a GPU architecture has to offer, and how full a kernel can make it: figures to compile for one that is not here.

Source: CUDA C programming guide, table of technical specifications by compute capability; AMD's CDNA 3 instruction set
and LLVM's AMDGPU guide; vendors' data sheets for peaks (dense, without sparsity) and bandwidth.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..resources import SHARED_LIMIT


@dataclass(frozen=True)
class Device:
    """An architecture, in the shape of one product of it."""

    target: str
    product: str
    units: int  # multiprocessors
    warps: int  # that one multiprocessor holds
    blocks: int
    registers: int
    shared_bytes: int  # of one multiprocessor
    bytes_per_s: float
    flops: dict[str, float]  # by dtype; products of matrices in 16 bits go through tensor cores
    lanes: int = 32  # of a warp
    threads: int = 1024  # that a block may have
    float_units: int = 128  # of a multiprocessor, each a multiplication and an addition in float32 a cycle

    @property
    def shared_limit(self) -> int:
        """Bytes that one block may ask for."""
        return SHARED_LIMIT[self.target]

    @property
    def shared_bytes_per_s(self) -> float:
        """Bytes of shared memory that all multiprocessors read a second: 128 each in a cycle."""
        return 128.0 * self.flops["float32"] / (2.0 * self.float_units)


def _flops(half: float, single: float, double: float) -> dict[str, float]:
    # whole numbers of 64 bits are put together from several operations of 32
    return {"float16": half, "bfloat16": half, "float32": single, "float64": double, "int64": single / 4}


DEVICES = {
    d.target: d
    for d in (
        Device("sm_80", "A100 80 GB", 108, 64, 32, 65536, 164 * 1024, 2.04e12, _flops(312e12, 19.5e12, 9.7e12),
               float_units=64),
        Device("sm_86", "RTX 3090", 82, 48, 16, 65536, 100 * 1024, 0.94e12, _flops(71e12, 35.6e12, 0.56e12)),
        Device("sm_89", "RTX 4090", 128, 48, 24, 65536, 100 * 1024, 1.01e12, _flops(165e12, 82.6e12, 1.3e12)),
        Device("sm_90", "H100 SXM", 132, 64, 32, 65536, 228 * 1024, 3.35e12, _flops(989e12, 67e12, 34e12)),
        Device("sm_100", "B200", 148, 64, 32, 65536, 228 * 1024, 8.0e12, _flops(2250e12, 80e12, 40e12)),
        Device("gfx942", "MI300X", 304, 32, 16, 131072, 64 * 1024, 5.3e12, _flops(1307e12, 163e12, 81.7e12), 64),
        # of 16 bits Triton multiplies nothing on its tensor cores; bfloat16 it does not have
        Device("sm_70", "V100", 80, 64, 32, 65536, 96 * 1024, 0.9e12, _flops(31.4e12, 15.7e12, 7.8e12), float_units=64),
    )
}  # fmt: skip


@dataclass(frozen=True)
class Occupancy:
    """Blocks that fit one multiprocessor at a time, the share of its warps that they are, and what allows no more."""

    blocks: int
    share: float
    limit: str


def occupancy(device: Device, registers: int, shared_bytes: int, num_warps: int) -> Occupancy:
    """Return how many blocks of a kernel one multiprocessor holds.

    Registers are handed out to warps by 256, in each of four partitions; a block's shared memory by 128 bytes, with
    1 KiB besides that the system takes. AMD's warps of 64 get registers by 8 a lane, and at most 8 share a partition.

    >>> occupancy(DEVICES["sm_90"], 128, 0, 4)
    Occupancy(blocks=4, share=0.25, limit='registers')
    """
    a_warp = -(-max(registers, 1) * device.lanes // (8 * device.lanes)) * 8 * device.lanes
    shared = -(-(shared_bytes + (1024 if device.lanes == 32 else 0)) // 128) * 128
    fits = {  # of equal limits the first is named
        "warps": device.warps // num_warps,
        "registers": device.registers // 4 // a_warp * 4 // num_warps,
        "blocks": device.blocks,
        "shared memory": device.shared_bytes // shared if shared else device.blocks,
    }
    limit = min(fits, key=lambda name: fits[name])
    return Occupancy(fits[limit], fits[limit] * num_warps / device.warps, limit)
