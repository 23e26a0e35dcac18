"""Layers whose weights are kept in a form of `forms`: what they share, whatever they compute.

A layer becomes one of these where it stands: it keeps its place, its hooks, its bias and its other settings, and
changes its class and its weights.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from ....base import dtypes
from ....base.errors import text
from ....ops.creation import tensor
from ....tensors.tensor import Tensor
from .forms import Form, Packed

PARTS = ("values", "scale", "zero")
LEAST, MOST = -128, 127  # of a whole number of 8 bits


class Stored:
    """What a layer with kept weights has beside a float one's: the kept tensors as buffers (``weight_values``,
    ``weight_scale``, ``weight_zero``), and `weight` itself as numbers whenever somebody asks.

    ``input_scale`` and ``input_zero`` stand for a scale of the inputs that is given; there are no tensors of int8 that
    know their scale, so that layers take and give floating numbers and hold whole ones inside.
    """

    forms: dict[str, Form]  # by a weight's name how it is kept
    shapes: dict[str, tuple[int, ...]]
    inputs: str  # "" as they come, "dynamic" or "static"
    takes: tuple[str, ...] = ("",)  # what `inputs` may be
    activation: str | None
    _parameters: dict[str, Any]
    _buffers: dict[str, Any]
    _zero: int
    _within: tuple[float, float] | None
    register_buffer: Callable[..., None]

    # -- becoming one --------------------------------------------------------------------------------------------------

    def keep(self, form: Form | dict[str, Form], inputs: str = "", packed: dict[str, Packed] | None = None,
             activation: str | None = None) -> None:  # fmt: skip
        """Take the weights out of the parameters and keep them; `packed` has those that were rounded elsewhere."""
        if inputs not in self.takes:
            raise NotImplementedError(
                text(f"{type(self).__name__} does not round its inputs", op="quantize_", came=f"inputs={inputs!r}",
                     remedy="a config of weights alone, such as Int8WeightOnlyConfig()"))  # fmt: skip
        names = [name for name, p in self._parameters.items() if p is not None and p.ndim > 1]
        self.forms = form if isinstance(form, dict) else dict.fromkeys(names, form)
        self.shapes = {name: tuple(self._parameters[name].shape) for name in self.forms}
        self.inputs, self.activation, self._zero, self._within = inputs, activation, 0, None
        given = packed or {}
        for name, kept_as in self.forms.items():
            weight = self._parameters.pop(name)
            parts = given.get(name) or kept_as.pack(weight)
            for part, t in parts.items():
                self.register_buffer(f"{name}_{part}", t)
        if inputs == "static":
            place = next(iter(self._buffers.values())).device
            self.register_buffer("input_scale", tensor(1.0, device=place))
            self.register_buffer("input_zero", tensor(0, dtype=dtypes.int32, device=place))
            self.register_buffer("input_limits", tensor([LEAST, MOST], dtype=dtypes.int32, device=place))

    def set_inputs(self, scale: float, zero: int, limits: tuple[int, int] = (LEAST, MOST)) -> None:
        """Say to which steps the inputs are rounded: ``round(x / scale) + zero``, within the limits."""
        place = self._buffers["input_scale"].device
        self._buffers["input_scale"] = tensor(float(scale), device=place)
        self._buffers["input_zero"] = tensor(int(zero), dtype=dtypes.int32, device=place)
        self._buffers["input_limits"] = tensor(list(limits), dtype=dtypes.int32, device=place)
        self._read_inputs()

    def _read_inputs(self) -> None:
        """Keep the zero as a number, and the limits of inputs that are cut off before 8 bits do it."""
        self._zero = int(self._buffers["input_zero"])
        low, high = self._buffers["input_limits"].tolist()
        scale = float(self._buffers["input_scale"])
        narrow = (low, high) != (LEAST, MOST)
        self._within = ((low - self._zero) * scale, (high - self._zero) * scale) if narrow else None

    def _cut(self, x: Any) -> Any:
        """Return inputs within the limits, if these are narrower than 8 bits."""
        return x if self._within is None else x.clamp(*self._within)

    # -- the weights ---------------------------------------------------------------------------------------------------

    def kept(self, name: str = "weight") -> Packed:
        """Return the tensors in which a weight is kept."""
        found = {part: self._buffers.get(f"{name}_{part}") for part in PARTS}
        return {part: t for part, t in found.items() if t is not None}

    def __getattr__(self, name: str) -> Any:
        forms = self.__dict__.get("forms")
        if forms is not None and name in forms:
            return forms[name].widen(self.kept(name), self.shapes[name])
        return super().__getattr__(name)  # type: ignore[misc]

    # -- moving, loading, telling --------------------------------------------------------------------------------------

    def _apply(self, fn: Any, recurse: bool = True) -> Self:
        """Convert as other modules do; what is kept changes its device alone, and not its type."""
        before = {f"{name}_values": self._buffers[f"{name}_values"] for name in self.forms}
        before |= {n: self._buffers[n] for n in ("input_scale",) if n in self._buffers}
        super()._apply(fn, recurse)  # type: ignore[misc]
        for name, t in before.items():
            if self._buffers[name].dtype is not t.dtype:
                self._buffers[name] = t.to(device=self._buffers[name].device)
        return self

    def _load_from_state_dict(self, *args: Any) -> None:
        super()._load_from_state_dict(*args)  # type: ignore[misc]
        scale = self._buffers.get("input_scale")
        if scale is not None and scale.device.type != "meta":
            self._read_inputs()

    def _get_name(self) -> str:
        return f"Quantized{type(self).__name__}"

    def extra_repr(self) -> str:
        form = next(iter(self.forms.values()))
        said = f"{super().extra_repr()}, weight={form}"  # type: ignore[misc]
        if self.inputs:
            said += f", inputs={self.inputs}"
        return said if self.activation is None else f"{said}, activation={self.activation}"

    def _input_scale(self) -> Tensor | None:
        return self._buffers["input_scale"] if self.inputs == "static" else None


def like(t: Any, x: Tensor) -> Any:
    """Return a scale or a bias in the type of what it meets."""
    return t if t is None or t.dtype is x.dtype else t.to(x.dtype)
