"""`GradScaler`: the loss times a factor, the gradients divided by it again, and no step where they overflowed."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import Any

import numpy as np

from .. import backends, cuda, native
from ..base.device import device as Device
from ..base.dtypes import float16, float32, int32
from ..base.errors import text
from ..base.modes import no_grad
from ..base.source import here, warn
from ..dispatch.sparse import held_by
from ..ops.creation import full, tensor
from ..tensors.tensor import Tensor, storage_of, wrap

_UNSCALED, _STEPPED = "unscaled", "stepped"
_EARLIER = "This may indicate your script did not use scaler.scale(loss or outputs) earlier in the iteration."


def _unscale(arrays: list[Any], factor: float, device_type: str) -> Any:
    """Multiply arrays in place; whether any item was not finite, as a number or a 0-d array on their device."""
    if device_type == "cpu" and native.module is not None:
        whole = [a.dtype.char in "fd" and a.flags.forc and a.flags.writeable for a in arrays]
        found = native.module.unscale([a for a, ok in zip(arrays, whole, strict=True) if ok], factor)
        arrays = [a for a, ok in zip(arrays, whole, strict=True) if not ok]
        if not arrays:
            return float(found)
    else:
        found = False
    xp = backends.array_module(device_type)
    bad = xp.asarray(found)
    with np.errstate(all="ignore"):
        for a in arrays:
            wide = a.astype(np.float32) if a.dtype.itemsize == 2 else a
            bad = bad | ~xp.isfinite(wide).all()  # no look at the value: a GPU need not be waited for
            a[...] = (wide * wide.dtype.type(factor)).astype(a.dtype)
    return bad.astype(np.float32)


class OptState(enum.Enum):
    """Where an optimizer stands between two updates of the scale."""

    READY, UNSCALED, STEPPED = range(3)


class GradScaler:
    """Scales losses so that gradients in float16 do not vanish, and finds the scale by itself.

    After a step whose gradients held an infinity or NaN, which is left out, the scale is multiplied by
    `backoff_factor`; after `growth_interval` good ones in a row by `growth_factor`. bfloat16 needs none of this.

    device : "cuda" or "cpu", where the gradients are.
    enabled : False makes `scale` and `unscale_` do nothing and `step` the optimizer's own.

    *Raises*: AssertionError for factors on the wrong side of 1 and for a step with nothing scaled; RuntimeError for
    gradients that were unscaled already; ValueError for gradients in float16, whose parameters should be float32.

    >>> import core
    >>> w = core.ones(1, requires_grad=True)
    >>> opt = core.optim.SGD([w], lr=0.5)
    >>> scaler = core.amp.GradScaler("cpu", init_scale=8.0)
    >>> scaler.scale((w * 3).sum()).backward()
    >>> w.grad
    tensor([24.])
    >>> scaler.step(opt)
    >>> scaler.update()
    >>> w
    tensor([-0.5000], requires_grad=True)
    """

    def __init__(self, device: str = "cuda", init_scale: float = 2.0**16, growth_factor: float = 2.0,
                 backoff_factor: float = 0.5, growth_interval: int = 2000, enabled: bool = True) -> None:  # fmt: skip
        self._device, self._enabled = device, enabled
        if enabled and device == "cuda" and not cuda.is_available():
            warn(
                "torch.cuda.amp.GradScaler is enabled, but CUDA is not available.  Disabling.\n"
                f"  came: {cuda.reason()}; remedy: GradScaler('cpu') on the CPU"
            )
            self._enabled = False
        if not self._enabled:
            return
        if growth_factor <= 1.0:
            raise AssertionError(f"The growth factor must be > 1.0.\n  came: {growth_factor}")
        if backoff_factor >= 1.0:
            raise AssertionError(f"The backoff factor must be < 1.0.\n  came: {backoff_factor}")
        self._init_scale, self._init_growth_tracker = init_scale, 0
        self._growth_factor, self._backoff_factor = growth_factor, backoff_factor
        self._growth_interval = growth_interval
        self._scale: Tensor | None = None  # made with the first loss, on its device
        self._growth_tracker: Tensor | None = None
        self._stages: dict[int, dict[str, Any]] = {}  # of each optimizer since the last update

    # -- an iteration --------------------------------------------------------------------------------------------------

    def scale(self, outputs: Any) -> Any:
        """Return the outputs times the scale: a tensor, or any nesting of iterables of them."""
        if not self._enabled:
            return outputs
        if isinstance(outputs, Tensor):
            if self._scale is None:
                self._scale = full((), self._init_scale, dtype=float32, device=outputs.device)
                self._growth_tracker = full((), self._init_growth_tracker, dtype=int32, device=outputs.device)
            return outputs * self._scale.to(outputs.device)  # type: ignore[attr-defined]
        if isinstance(outputs, Iterable) and not isinstance(outputs, str):
            scaled = map(self.scale, outputs)
            return type(outputs)(scaled) if isinstance(outputs, list | tuple) else scaled  # type: ignore[call-arg]
        raise ValueError(f"outputs must be a Tensor or an iterable of Tensors\n  came: {type(outputs).__name__}")

    def unscale_(self, optimizer: Any) -> None:
        """Divide the gradients of an optimizer's parameters by the scale; `step` does it where this was not called.

        Call it to clip or look at gradients between backward and `step`, once a step.
        """
        if not self._enabled:
            return
        scale, _ = self._ready("unscale_")
        stage = self._stages.setdefault(id(optimizer), {})
        if stage.get("stage") is _UNSCALED:
            raise RuntimeError("unscale_() has already been called on this optimizer since the last update().\n  "
                               "remedy: once a step, and scaler.update() after the steps")  # fmt: skip
        if stage.get("stage") is _STEPPED:
            raise RuntimeError("unscale_() is being called after step().\n  remedy: unscale_(optimizer) between "
                               "backward() and step()")  # fmt: skip
        factor = float(np.float32(1.0 / float(scale.item())))
        stage["found"], stage["stage"] = self._unscale_gradients(optimizer, factor, False), _UNSCALED

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """Return the optimizer's step on gradients that are divided by the scale; none where one of them is not
        finite."""
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        self._ready("step")
        stage = self._stages.setdefault(id(optimizer), {})
        if stage.get("stage") is _STEPPED:
            raise RuntimeError("step() has already been called since the last update().\n  remedy: scaler.update() "
                               "once an iteration, after every optimizer's step")  # fmt: skip
        if "found" not in stage:
            self.unscale_(optimizer)
        if not stage["found"]:
            raise AssertionError("No inf checks were recorded for this optimizer.\n  came: parameters without "
                                 "gradients; remedy: scaler.scale(loss).backward() before the step")  # fmt: skip
        result = None
        if not sum(float(t.item()) for t in stage["found"].values()):
            result = optimizer.step(*args, **kwargs)
        stage["stage"] = _STEPPED
        return result

    def update(self, new_scale: float | Tensor | None = None) -> None:
        """Set the scale for the next iteration, by what the steps found or to `new_scale`; once, after all steps."""
        if not self._enabled:
            return
        scale, tracker = self._ready("update")
        if new_scale is not None:
            self._set(new_scale, scale)
        else:
            found = [float(t.item()) for stage in self._stages.values() for t in stage.get("found", {}).values()]
            if not found:
                raise AssertionError("No inf checks were recorded prior to update.\n  remedy: scaler.step(optimizer) "
                                     "before scaler.update()")  # fmt: skip
            self._adapt(scale, tracker, bool(sum(found)))
        self._stages = {}

    def _adapt(self, scale: Tensor, tracker: Tensor, overflow: bool) -> None:
        with no_grad():
            if overflow:
                scale.mul_(self._backoff_factor)  # type: ignore[attr-defined]
                tracker.zero_()  # type: ignore[attr-defined]
                return
            good = int(tracker.item()) + 1
            if good == self._growth_interval:
                grown = np.float32(scale.item()) * np.float32(self._growth_factor)
                if np.isfinite(grown):
                    scale.fill_(float(grown))  # type: ignore[attr-defined]
                good = 0
            tracker.fill_(good)  # type: ignore[attr-defined]

    def _set(self, new_scale: float | Tensor, scale: Tensor) -> None:
        if isinstance(new_scale, Tensor):
            if new_scale.dtype is not float32 or new_scale.numel() != 1 or new_scale.requires_grad:
                raise AssertionError(text("new_scale should be a float or a 1-element torch.cuda.FloatTensor or "
                                          "torch.FloatTensor with requires_grad=False.", op="GradScaler.update",
                                          came=f"{tuple(new_scale.shape)} of {new_scale.dtype}"))  # fmt: skip
            new_scale = float(new_scale.item())
        with no_grad():
            scale.fill_(float(new_scale))  # type: ignore[attr-defined]

    # -- what it stands on ---------------------------------------------------------------------------------------------

    def _ready(self, what: str) -> tuple[Tensor, Tensor]:
        if self._scale is None or self._growth_tracker is None:
            raise AssertionError(f"Attempted {what} but _scale is None.  {_EARLIER}")
        return self._scale, self._growth_tracker

    def _unscale_gradients(self, optimizer: Any, factor: float, halves: bool) -> dict[Device, Tensor]:
        """Multiply all gradients; for each device whether one was not finite."""
        by_device: dict[Device, list[Tensor]] = {}
        for group in optimizer.param_groups:
            for p in group["params"]:
                if p._grad is None:
                    continue
                if p._grad.dtype is float16 and not halves:
                    raise ValueError(text("Attempting to unscale FP16 gradients.", op="GradScaler.unscale_",
                                          came=f"a parameter of {p.dtype}, shape {tuple(p.shape)}",
                                          remedy="keep the parameters in float32 and let autocast choose"))  # fmt: skip
                by_device.setdefault(p._grad.device, []).append(p._grad)
        found: dict[Device, Tensor] = {}
        place = here()
        for device, grads in by_device.items():
            grads = held_by(grads)
            bad = _unscale([g._a for g in grads], factor, device.type)
            found[device] = tensor(bad) if isinstance(bad, float) else wrap(bad, full((), 0.0, device=device)._kind)
            for g in grads:
                storage_of(g).wrote("unscale_", place)
        return found

    def _check_inf_per_device(self, optimizer: Any) -> dict[Device, Tensor]:
        self._ready("_check_inf_per_device")
        found = self._unscale_gradients(optimizer, 1.0, True)
        self._stages.setdefault(id(optimizer), {})["found"] = found
        return found

    def _found_inf_per_device(self, optimizer: Any) -> dict[Device, Tensor]:
        return self._stages.get(id(optimizer), {}).get("found", {})  # type: ignore[no-any-return]

    # -- its settings --------------------------------------------------------------------------------------------------

    def is_enabled(self) -> bool:
        """Return whether it scales at all."""
        return self._enabled

    def get_scale(self) -> float:
        """Return the scale now; 1 where it is not enabled."""
        if not self._enabled:
            return 1.0
        return self._init_scale if self._scale is None else float(self._scale.item())

    def get_growth_factor(self) -> float:
        """Return what the scale is multiplied by when it grows."""
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """Set what the scale is multiplied by when it grows."""
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        """Return what the scale is multiplied by after an overflow."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Set what the scale is multiplied by after an overflow."""
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        """Return how many good steps in a row let the scale grow."""
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Set how many good steps in a row let the scale grow."""
        self._growth_interval = new_interval

    def _get_growth_tracker(self) -> int:
        """Return how many good steps there were in a row."""
        if not self._enabled:
            return 0
        return self._init_growth_tracker if self._growth_tracker is None else int(self._growth_tracker.item())

    def state_dict(self) -> dict[str, Any]:
        """Return the scale and the settings; empty where it is not enabled. Take it before or after an iteration, not
        within.

        >>> import core
        >>> core.amp.GradScaler("cpu").state_dict()["scale"]
        65536.0
        """
        if not self._enabled:
            return {}
        return {
            "scale": self.get_scale(),
            "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": self._get_growth_tracker(),
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take back a state. *Raises*: RuntimeError for an empty one, from a scaler that was not enabled."""
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError("The source state dict is empty, possibly because it was saved from a disabled instance "
                               "of GradScaler.")  # fmt: skip
        self._init_scale, self._init_growth_tracker = state_dict["scale"], state_dict["_growth_tracker"]
        self._growth_factor, self._backoff_factor = state_dict["growth_factor"], state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]
        with no_grad():
            if self._scale is not None and self._growth_tracker is not None:
                self._scale.fill_(self._init_scale)  # type: ignore[attr-defined]
                self._growth_tracker.fill_(self._init_growth_tracker)  # type: ignore[attr-defined]

    def __getstate__(self) -> dict[str, Any]:
        state = dict(self.__dict__)
        if self._enabled:
            if self._stages:
                raise AssertionError("A GradScaler instance may only be pickled at the beginning of an iteration, or "
                                     "at the end after scaler.update().")  # fmt: skip
            state |= {"_init_scale": self.get_scale(), "_init_growth_tracker": self._get_growth_tracker(),
                      "_scale": None, "_growth_tracker": None}  # fmt: skip
        return state
