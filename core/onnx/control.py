"""ONNX's If, Loop and Scan, and the steps of its optimizers."""

from __future__ import annotations

from typing import Any

from ..base import dtypes
from .table import Call, constant, number, row, t


@row("If")
def _if(call: Call, condition: Any, then_branch: Any, else_branch: Any) -> Any:
    return call.run(then_branch if number(condition) else else_branch, ())


@row("OptionalHasElement")
def _has_element(call: Call, x: Any = None) -> Any:
    return constant(x is not None, dtypes.bool_)


@row("OptionalGetElement")
def _get_element(call: Call, x: Any) -> Any:
    return x


@row("Loop")
def _loop(call: Call, most: Any, condition: Any, *state: Any, body: Any) -> Any:
    """At most `most` turns, as long as the condition holds; what the body gives beyond the state is collected."""
    turns = None if most is None else number(most)
    goes = True if condition is None else bool(number(condition))
    count = len(state)
    collected: list[list[Any]] = [[] for _ in range(len(body.outputs) - 1 - count)]
    k = 0
    while goes and (turns is None or k < turns):
        held = constant(True, dtypes.bool_)
        again, *rest = call.run(body, (constant(k, dtypes.int64), held, *state))
        goes, state = bool(number(again)), tuple(rest[:count])
        for into, value in zip(collected, rest[count:], strict=True):
            into.append(value)
        k += 1
    return (*state, *(t.stack(values) if values else _nothing(call) for values in collected))


def _nothing(call: Call) -> Any:
    raise call.refused("it ran no turn, and what it collects has no shape then", "a first turn")


@row("Scan")
def _scan(call: Call, *inputs: Any, body: Any, num_scan_inputs: int, scan_input_axes: Any = None,
          scan_input_directions: Any = None, scan_output_axes: Any = None, scan_output_directions: Any = None,
          directions: Any = None) -> Any:  # fmt: skip
    """The body takes the state and one slice of each scanned input; its further results are stacked."""
    if call.version < 9:  # with batches, and the lengths of the sequences first
        return _scan8(call, *inputs, body=body, num_scan_inputs=num_scan_inputs, directions=directions)
    count = len(inputs) - num_scan_inputs
    state, scanned = tuple(inputs[:count]), inputs[count:]
    axes = scan_input_axes or [0] * num_scan_inputs
    backward = scan_input_directions or [0] * num_scan_inputs
    steps = scanned[0].shape[axes[0]]
    results: list[list[Any]] = [[] for _ in range(len(body.outputs) - count)]
    for k in range(steps):
        slices = [x.select(axis, steps - 1 - k if back else k)
                  for x, axis, back in zip(scanned, axes, backward, strict=True)]  # fmt: skip
        found = call.run(body, (*state, *slices))
        state = tuple(found[:count])
        for into, value in zip(results, found[count:], strict=True):
            into.append(value)
    out_axes = scan_output_axes or [0] * len(results)
    out_back = scan_output_directions or [0] * len(results)
    stacked = [t.stack(values[::-1] if back else values, axis)
               for values, axis, back in zip(results, out_axes, out_back, strict=True)]  # fmt: skip
    return (*state, *stacked)


def _scan8(call: Call, lengths: Any, *inputs: Any, body: Any, num_scan_inputs: int, directions: Any = None) -> Any:
    if lengths is not None:
        raise call.refused("sequences of several lengths (opset 8)", "opset 9 or later")
    later = Call(call.op, 9, call.outputs, call.run)
    runs = [_scan(later, *(x[b] for x in inputs), body=body, num_scan_inputs=num_scan_inputs,
                  scan_input_directions=directions) for b in range(inputs[0].shape[0])]  # fmt: skip
    return tuple(t.stack(parts) for parts in zip(*runs, strict=True))


# -- optimizers (ai.onnx.preview.training) -----------------------------------------------------------------------------


def _each(inputs: tuple[Any, ...], pieces: int) -> list[tuple[Any, ...]]:
    """Return for each parameter what belongs to it: the inputs stand as all parameters, all gradients, ..."""
    count = len(inputs) // pieces
    return [tuple(inputs[k + part * count] for part in range(pieces)) for k in range(count)]


def _grouped(results: list[tuple[Any, ...]]) -> tuple[Any, ...]:
    return tuple(value for part in zip(*results, strict=True) for value in part)


@row("Adagrad")
def _adagrad(call: Call, rate: Any, turn: Any, *inputs: Any, decay_factor: float = 0.0, epsilon: float = 1e-6,
             norm_coefficient: float = 0.0) -> Any:  # fmt: skip
    r = rate / (1 + turn * decay_factor)
    found = []
    for x, g, h in _each(inputs, 3):
        g = norm_coefficient * x + g
        h = h + g * g
        found.append(((x - r * g / (h.sqrt() + epsilon)).to(x.dtype), h))
    return _grouped(found)


@row("Adam")
def _adam(call: Call, rate: Any, turn: Any, *inputs: Any, alpha: float = 0.9, beta: float = 0.999,
          epsilon: float = 1e-8, norm_coefficient: float = 0.0, norm_coefficient_post: float = 0.0) -> Any:  # fmt: skip
    k = number(turn)
    r = rate * ((1 - beta**k) ** 0.5 / (1 - alpha**k)) if k > 0 else rate
    found = []
    for x, g, v, h in _each(inputs, 4):
        g = norm_coefficient * x + g
        v, h = alpha * v + (1 - alpha) * g, beta * h + (1 - beta) * g * g
        new = x - r * v / (h.sqrt() + epsilon)
        found.append((((1 - norm_coefficient_post) * new).to(x.dtype), v, h))
    return _grouped(found)


@row("Momentum")
def _momentum(call: Call, rate: Any, turn: Any, *inputs: Any, alpha: float, beta: float, mode: str,
              norm_coefficient: float) -> Any:  # fmt: skip
    found = []
    for x, g, v in _each(inputs, 3):
        g = norm_coefficient * x + g
        v = alpha * v + (beta if number(turn) > 0 else 1.0) * g
        step = g + alpha * v if mode == "nesterov" else v
        found.append(((x - rate * step).to(x.dtype), v))
    return _grouped(found)
