"""GPUs and the network between them, as far as the time of a step hangs on them: rates, latencies, sizes."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["MACHINES", "Level", "Machine", "machine_of"]

BUCKET = 25e6
"""Bytes of gradients that are sent together."""


@dataclass(frozen=True)
class Level:
    """A network that joins `ranks` GPUs (0: all of them); its rate is one GPU's, in one direction."""

    name: str
    ranks: int
    latency_s: float
    bytes_per_s: float


@dataclass(frozen=True)
class Machine:
    """A cluster of one kind of GPU.

    flops : operations a second that a training step reaches, which is a good deal less than the data sheet's.
    memory : bytes of a GPU; 0: not known. bandwidth : bytes a second of that memory.
    levels : networks, from the innermost.
    gradients : what summing gradients adds to a step, copies and waiting included, where that was measured; None: what
        the levels say, and copies at the memory's rate.
    op_s : the least that an op takes, however small it is. step_s : what a step takes, whatever its size.
    crowding : how much longer a rank takes where so many share the machine, for machines with fewer processors than
        ranks.
    overlap : the share of a backward pass in which gradients can be sent.
    mtbf_hours : between two failures of one GPU or what belongs to it. restart_s : from a failure to the next step.
    write : bytes a second that a GPU can put on disk. storage : that all can together.
    """

    name: str
    flops: float
    memory: float
    bandwidth: float
    levels: tuple[Level, ...]
    op_s: float = 4e-6
    step_s: float = 0.0
    overlap: float = 0.9
    mtbf_hours: float = 50_000.0
    restart_s: float = 300.0
    write: float = 0.5e9
    storage: float = 2e11
    crowding: dict[int, float] = field(default_factory=dict)
    gradients: Level | None = None

    def crowd(self, ranks: int) -> float:
        """Return how much longer a rank computes where so many do."""
        known = [n for n in self.crowding if n <= ranks]
        return self.crowding[max(known)] if known else 1.0

    def all_reduce(self, size: float, ranks: int, apart: int = 1) -> float:
        """Return the seconds in which so many ranks sum `size` bytes, `apart` from each other in the numbering.

        Summed level by level: scattered within the innermost one, so that the next carries a part each. Of a ring and
        a tree the faster one.

        >>> two = Machine("two", 1e12, 1e9, 1e11, (Level("wire", 0, 1e-6, 1e9),))
        >>> two.all_reduce(1e9, 2), two.all_reduce(1e9, 1)
        (1.000002, 0.0)
        """
        seconds, inside = 0.0, 1
        for level in self.levels:
            members = max((level.ranks or ranks * apart) // apart, 1)
            here = min(max(members // inside, 1), math.ceil(ranks / inside))
            if here > 1:
                seconds += min(_ring(level, size / inside, here), _tree(level, size / inside, here))
                inside *= here
            if inside >= ranks:
                break
        return seconds

    def summed(self, size: float, ranks: int, apart: int = 1) -> float:
        """Return the seconds of summing `size` bytes of gradients: as measured in training, or else `all_reduce`'s."""
        if self.gradients is None:
            return self.all_reduce(size, ranks, apart)
        return _ring(self.gradients, size, ranks)

    def send(self, size: float, apart: int = 1) -> float:
        """Return the seconds of a message to the rank that is `apart` in the numbering."""
        level = next((level for level in self.levels if not level.ranks or level.ranks > apart), self.levels[-1])
        return level.latency_s + size / level.bytes_per_s

    def plain(self) -> dict[str, Any]:
        """Return it as what JSON can hold."""
        return asdict(self)


def _ring(level: Level, size: float, ranks: int) -> float:
    return 2 * (ranks - 1) * (level.latency_s + size / ranks / level.bytes_per_s)


def _tree(level: Level, size: float, ranks: int) -> float:
    return 2 * math.ceil(math.log2(ranks)) * level.latency_s + 2 * size / level.bytes_per_s


_NVLINK = Level("NVLink", 8, 3e-6, 400e9)
MACHINES = {
    "h100-ib400": Machine("8 x H100 a node, NVLink, 400 Gb/s InfiniBand a GPU", 400e12, 80e9, 3.35e12,
                          (_NVLINK, Level("InfiniBand", 0, 6e-6, 45e9))),
    "h100-eth100": Machine("8 x H100 a node, NVLink, 100 Gb/s Ethernet a node", 400e12, 80e9, 3.35e12,
                           (_NVLINK, Level("Ethernet", 0, 30e-6, 1.4e9))),
    "a100-ib200": Machine("8 x A100 a node, NVLink, 200 Gb/s InfiniBand a GPU", 150e12, 80e9, 2.0e12,
                          (Level("NVLink", 8, 3e-6, 250e9), Level("InfiniBand", 0, 6e-6, 22e9))),
}  # fmt: skip
"""Rates are what training reaches, by published runs: about 40 % of an H100's peak in bfloat16, half of an A100's. A
failure every 50,000 hours of a GPU is Llama 3's (419 in 54 days on 16,384)."""


def machine_of(said: str) -> Machine:
    """Return the machine of that name, or the one that a JSON file describes, as `Machine.plain` gives it.

    *Raises*: ValueError for an unknown name, OSError and ValueError for a file that cannot be read.
    """
    if said in MACHINES:
        return MACHINES[said]
    if not said.endswith(".json"):
        raise ValueError(f"plan: no machine is called {said!r}; there are {', '.join(MACHINES)}, here, or a file.json")
    try:
        told = json.loads(Path(said).read_text(encoding="utf-8"))
        levels = tuple(Level(**level) for level in told.pop("levels"))
        crowding = {int(n): float(x) for n, x in told.pop("crowding", {}).items()}
        summed = told.pop("gradients", None)
        return Machine(levels=levels, crowding=crowding, gradients=summed and Level(**summed), **told)
    except (TypeError, KeyError, AttributeError, ValueError) as error:
        raise ValueError(f"plan: {said} describes no machine: {type(error).__name__}: {error}") from None
