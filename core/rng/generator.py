"""`Generator`: a source of random numbers and its state; the default ones, and their seeds."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..base.device import cpu
from ..base.device import device as Device
from ..base.errors import text
from ..tensors.tensor import Tensor, from_array
from .mt19937 import Mersenne
from .philox import Philox, Place

on_gpus: weakref.WeakSet[Generator] = weakref.WeakSet()
_KINDS: dict[str, Any] = {"philox": Philox, "torch": Mersenne}
_default_kind = "philox"


def _checked(seed: Any, op: str) -> int:
    value = int(seed)
    if not -0x8000_0000_0000_0000 <= value <= 0xFFFF_FFFF_FFFF_FFFF:
        raise ValueError(
            text("Overflow when unpacking long", op=op, came=f"seed {value}", needed="-2**63 to 2**64 - 1")
        )
    return value & 0xFFFF_FFFF_FFFF_FFFF


def _engine(kind: str, seed: int) -> Any:
    if kind not in _KINDS:
        raise ValueError(
            text(f"unknown kind of generator {kind!r}", op="Generator", needed=" or ".join(map(repr, _KINDS)))
        )
    return _KINDS[kind](seed)


class Generator:
    """A source of random numbers.

    kind : "philox" makes a number of its seed and place alone, the same on CPU and GPU; it is the default, but under
        `core.as_torch`. "torch" is the Mersenne twister of PyTorch's CPU generator and gives its numbers.

    >>> import core
    >>> a, b = core.Generator().manual_seed(1), core.Generator().manual_seed(1)
    >>> bool((core.rand(3, generator=a) == core.rand(3, generator=b)).all())
    True
    """

    def __init__(self, device: Any = "cpu", *, kind: str | None = None) -> None:
        self.device = Device(device)
        self._lock = threading.Lock()
        self.engine = _engine(kind or _default_kind, 67280421310721)  # PyTorch's seed of a new generator
        self._outside: Any = None  # the engine, while that of a graph's capture stands in its place
        if self.device.type == "cuda":
            on_gpus.add(self)

    @property
    def kind(self) -> str:
        """Which numbers it gives: "philox" or "torch"."""
        return str(self.engine.kind)

    def manual_seed(self, seed: int, *, kind: str | None = None) -> Generator:
        """Begin anew from `seed`; gives the generator back."""
        if self._outside is not None:
            if _checked(seed, "manual_seed") == self.initial_seed() and kind in (None, self.kind):
                return self
            raise RuntimeError(
                text("manual_seed can be called during stream capture only if new seed is the same as the original "
                     "seed", op="manual_seed", came=f"{seed}, the seed is {self.initial_seed()}",
                     remedy="set the seed before graph.replay(), which draws with it")
            )  # fmt: skip
        self.engine = _engine(kind or self.kind, _checked(seed, "manual_seed"))
        return self

    def seed(self) -> int:
        """Begin anew from a seed that nobody can guess, which is returned."""
        value = int.from_bytes(os.urandom(8), "little") >> 11
        self.manual_seed(value)
        return value

    def initial_seed(self) -> int:
        """Return the seed it began from."""
        return int(self.engine.seed)

    def get_state(self) -> Tensor:
        """Return where it stands, as a tensor of bytes for `set_state`."""
        return from_array(np.frombuffer(self.kind[0].encode() + self.engine.state(), np.uint8).copy())

    def set_state(self, new_state: Tensor) -> Generator:
        """Stand where `get_state` stood."""
        data = bytes(new_state.cpu()._a)
        kind = next((k for k in _KINDS if data[:1] == k[0].encode()), None)
        size = {"philox": 17, "torch": 2529}.get(kind or "")
        if len(data) != size:
            raise RuntimeError(text("RNG state is wrong size", op="set_state", came=f"{len(data)} bytes",
                                    needed="the tensor of a get_state()"))  # fmt: skip
        before, self.engine = self.engine, _engine(str(kind), 0)
        self.engine.set_state(data[1:])
        if self._outside is not None:
            self.engine.place, self.engine.reached = before.place, before.reached
        return self

    def clone_state(self) -> Generator:
        """Another generator that stands where this one does."""
        return Generator(self.device).set_state(self.get_state())

    def take(self, n: int) -> tuple[int, int] | None:
        """Set n numbers aside for a kernel that makes them itself: (seed, offset) of Philox; None for kind "torch"."""
        if not isinstance(self.engine, Philox):
            return None
        with self._lock:
            return self.engine.take(n)

    def begin_capture(self, place: Place) -> None:
        """From now on numbers are those of a CUDA graph: their offsets are counted from what stands at `place`."""
        self._outside, self.engine = self.engine, Philox(self.initial_seed())
        self.engine.place = place

    def end_capture(self) -> int:
        """Return how many numbers the graph draws; the generator stands where it stood, as nothing was drawn yet."""
        drawn, self.engine, self._outside = self.engine.reached, self._outside, None
        return int(drawn)

    def __reduce__(self) -> tuple[Any, ...]:
        return (_restored, (str(self.device), self.get_state()))

    def __repr__(self) -> str:
        return f"<core.Generator kind={self.kind} seed={self.initial_seed()} on {self.device}>"


def _restored(where: str, state: Tensor) -> Generator:
    return Generator(where).set_state(state)


default_generator = Generator()
default_generator.seed()
_others: dict[Device, Generator] = {}


def default_of(where: Device) -> Generator:
    """Return the default generator of a device. All begin from one seed, so a mask is the same on each of them."""
    if where is cpu or where.type == "cpu":
        return default_generator
    found = _others.get(where)
    if found is None:
        found = _others[where] = Generator(where).manual_seed(
            default_generator.initial_seed(), kind=default_generator.kind
        )
    return found


def set_default_kind(kind: str) -> str:
    """Let generators be of a kind where none is named, the default ones too; return which it was before."""
    global _default_kind
    before, value = _default_kind, default_generator.initial_seed()
    if kind != before or kind != default_generator.kind:
        for g in (default_generator, *_others.values()):
            g.manual_seed(value, kind=kind)
    _default_kind = kind
    return before


def manual_seed(seed: int, *, kind: str | None = None) -> Generator:
    """Begin the default generators of all devices anew from `seed`.

    kind : "philox", or "torch" for PyTorch's own numbers, which are the default under `as_torch`.

    >>> import core
    >>> _ = core.manual_seed(0, kind="torch")
    >>> core.rand(3)
    tensor([0.4963, 0.7682, 0.0885])
    """
    for g in (default_generator, *_others.values()):
        g.manual_seed(seed, kind=kind or _default_kind)
    return default_generator


def seed() -> int:
    """Begin the default generators anew from a seed that nobody can guess, which is returned."""
    value = default_generator.seed()
    for g in _others.values():
        g.manual_seed(value)
    return value


def initial_seed() -> int:
    """Return the seed that the default generator began from."""
    return default_generator.initial_seed()


def get_rng_state() -> Tensor:
    """Return where the default generator of the CPU stands."""
    return default_generator.get_state()


def set_rng_state(new_state: Tensor) -> None:
    """Let the default generator of the CPU stand where `get_rng_state` stood."""
    default_generator.set_state(new_state)


def fork(seed: int) -> Generator:
    """Return a new generator of the default one's kind."""
    return Generator(kind=default_generator.kind).manual_seed(seed)


def states() -> list[tuple[Generator, Tensor]]:
    """Return where the default generators of all devices stand."""
    return [(g, g.get_state()) for g in (default_generator, *_others.values())]


def set_states(saved: list[tuple[Generator, Tensor]]) -> None:
    """Let the default generators stand where `states` found them."""
    for g, state in saved:
        g.set_state(state)


@contextmanager
def fork_rng(devices: Any = None, enabled: bool = True, device_type: str = "cuda") -> Iterator[None]:
    """What is drawn in the block leaves no trace: afterwards the default generators stand where they stood.

    Those of all devices, whatever `devices` and `device_type` say.

    >>> import core
    >>> _ = core.manual_seed(0)
    >>> with core.random.fork_rng():
    ...     a = core.rand(1)
    >>> bool(a == core.rand(1))
    True
    """
    saved = states() if enabled else []
    try:
        yield
    finally:
        set_states(saved)
