"""How axes go through layers: convolutions, norms, pools, recurrent layers."""

from __future__ import annotations

import math

import numpy as np

from ...modules.conv import _ConvNd, _ConvTranspose
from ...modules.module import Module
from ...modules.multihead import MultiheadAttention
from .atoms import Axis
from .python_numbers import Attribute, Number
from .rules import broadcast, joined, nothing, tensors
from .tracing import Call, Trace, rule


def _space(t: Trace, axes: list[Axis], call: Call) -> None:
    for a in axes:
        t.atoms.pin(a, f"{call.where} goes over it")


def _attribute(t: Trace, call: Call, name: str, left_of: Axis) -> None:
    """Note that an attribute of the layer that runs has to be as many as are left of an axis."""
    if call.module is not None and isinstance(vars(call.module).get(name), int):
        path = t.path_of(call.module)
        if path is not None and Attribute(path, name) in t.held.values:
            t.numbers.append(Number(("size", Attribute(path, name), "attribute"), left_of, call.op, call.place))


def _grouped(t: Trace, a: Axis, groups: int) -> tuple[Axis, Axis]:
    """Return an axis as groups and what stands in each."""
    if groups == 1:
        return nothing(1), a
    group, each = t.atoms.reshaped([a], (len(a),), (groups, len(a) // groups))
    return group, each


def _groups(t: Trace, call: Call, name: str, group: Axis) -> None:
    if call.params[name] > 1:
        t.number(call.params[name], group, call)
        _attribute(t, call, name, group)


@rule("conv", "conv_transpose")
def _conv(t: Trace, call: Call) -> list[list[Axis]]:
    x, weight, *bias = tensors(call)
    groups = int(call.params["groups"])
    space = len(weight) - 2
    _space(t, [*x[len(x) - space :], *weight[2:]], call)
    into, out = (weight[1], weight[0]) if call.op == "conv" else (weight[0], weight[1])
    channels = len(x) - space - 1
    group, each = _grouped(t, x[channels], groups)
    if call.op == "conv":
        t.atoms.join(into, each, call.where)
        if groups > 1:
            group = joined(t, [group, _grouped(t, out, groups)[0]], call)
        made = out
    else:
        t.atoms.join(into, x[channels], call.where)
        made = t.atoms.merged([group, out]) if groups > 1 else out
    made = joined(t, [made, *(b[0] for b in bias)], call)
    _groups(t, call, "groups", group)
    shape = call.shapes[0]
    return [[*x[:channels], made, *(nothing(n) for n in shape[len(shape) - space :])]]


@rule("batch_norm", "batch_norm_eval")
def _batch_norm(t: Trace, call: Call) -> list[list[Axis]]:
    x, *rest = tensors(call)
    channel = joined(t, [x[1] if len(x) > 1 else x[0], *(a[0] for a in rest)], call)
    _attribute(t, call, "num_features", channel)
    if call.op == "batch_norm":
        t.inexact += [(a, call.where) for d, a in enumerate(x) if d != 1]  # weights that are standardised
    return [list(x), *([channel] for _ in call.shapes[1:])]


@rule("group_norm")
def _group_norm(t: Trace, call: Call) -> list[list[Axis]]:
    x, *rest = tensors(call)
    for a in rest:
        t.atoms.join(x[1], a[0], call.where)
    group, each = _grouped(t, x[1], int(call.params["num_groups"]))
    t.inexact += [(a, call.where) for a in (each, *x[2:])]
    if call.params["num_groups"] == len(x[1]):  # InstanceNorm, or GroupNorm with a group a channel
        _attribute(t, call, "num_features", x[1])
    _groups(t, call, "num_groups", group)
    _attribute(t, call, "num_channels", x[1])
    return [list(x)]


@rule("layer_norm", "rms_norm")
def _layer_norm(t: Trace, call: Call) -> list[list[Axis]]:
    x, *rest = tensors(call)
    n = int(call.params["normalized_ndim"])
    for weight in rest:
        broadcast(t, [x[-n:], weight], [len(d) for d in x[-n:]], call)
    t.inexact += [(a, call.where) for a in x[-n:]]
    held = None if call.module is None else vars(call.module).get("normalized_shape")
    if call.module is not None and isinstance(held, tuple) and len(held) == n:
        t.tuples.append((call.module, "normalized_shape", x[-n:]))
    return [list(x)]


@rule("max_pool", "adaptive_max_pool", "window_sum", "resample", "pool_gather")
def _pool(t: Trace, call: Call) -> list[list[Axis]]:
    x, shape = tensors(call)[0], call.shapes[0]
    space = call.params.get("n") or len(call.params["out"])
    _space(t, x[len(x) - space :], call)
    return [[*x[: len(x) - space], *(nothing(n) for n in shape[len(shape) - space :])] for _ in call.shapes]


@rule("im2col")
def _im2col(t: Trace, call: Call) -> list[list[Axis]]:
    x, shape = tensors(call)[0], call.shapes[0]
    space = len(call.params["kernel"])
    lead = len(x) - space
    _space(t, x[lead:], call)
    found: list[Axis] = [*x[:lead], *(nothing(n) for n in shape[lead:])]
    if len(shape) == lead + 1 and shape[lead - 1] != len(x[lead - 1]):  # channels and kernel as one axis
        found[lead - 1] = np.repeat(x[lead - 1], shape[lead - 1] // len(x[lead - 1]), 0)
    elif tuple(shape[:lead]) != tuple(len(a) for a in x[:lead]):
        t.refuse(call, f"{call.where} is not followed")
        return [[t.atoms.fixed(n, call.where) for n in shape]]
    return [found]


def _gates(t: Trace, a: Axis, gates: int, call: Call) -> Axis:
    """Return what stands in each gate of an axis."""
    gate, each = t.atoms.reshaped([a], (len(a),), (gates, len(a) // gates))
    t.atoms.pin(gate, f"the gates of {call.where}")
    return each


@rule("lstm", "gru", "rnn")
def _recurrent(t: Trace, call: Call) -> list[list[Axis]]:
    gates = {"lstm": 4, "gru": 3, "rnn": 1}[call.op]
    names = ("x", "weight_ih", "weight_hh", "bias_ih", "bias_hh", "h0", "c0", "weight_hr")
    got = {n: a for n, a in zip(names, call.axes, strict=False) if a is not None}
    x, w, u = got["x"], got["weight_ih"], got["weight_hh"]
    t.atoms.join(w[1], x[-1], call.where)
    each = [w[0], u[0], *(got[n][0] for n in ("bias_ih", "bias_hh") if n in got)]
    hidden = joined(t, [_gates(t, a, gates, call) for a in each], call)
    state, out = hidden, hidden
    if "weight_hr" in got:
        out = got["weight_hr"][0]
        t.atoms.join(got["weight_hr"][1], hidden, call.where)
    t.atoms.join(u[1], out, call.where)
    for name, axis in (("h0", out), ("c0", state)):
        if name in got:
            t.atoms.join(got[name][-1], axis, call.where)
    lead = [nothing(n) for n in call.shapes[1][:-1]]
    return [[*x[:-1], out], [*lead, out], *([[*lead, state]] if call.op == "lstm" else [])]


def layer_sizes(module: Module) -> dict[str, int]:
    """Return what the sizes that a layer of core holds have to be, by its weights."""
    found: dict[str, int] = {}
    own = {n: p._a.shape for n, p in module._parameters.items() if p is not None}
    held = vars(module)
    made = module._modules.get("parametrizations")
    parts = made._modules.get("weight") if made is not None else None
    if parts is not None:
        own["weight"] = max((p._a.shape for p in parts.parameters()), key=math.prod)
    names = ("weight", "weight_orig", "weight_v", "weight_ih_l0", "weight_ih")
    weight = next((own[n] for n in names if n in own), None)
    if weight is None:
        return found
    if "in_features" in held and len(weight) == 2:
        found |= {"out_features": weight[0], "in_features": weight[1]}
    if "in1_features" in held:
        found |= {"out_features": weight[0], "in1_features": weight[1], "in2_features": weight[2]}
    if isinstance(module, _ConvNd):
        groups = held["groups"]
        turned = isinstance(module, _ConvTranspose)
        into, out = (weight[0], weight[1] * groups) if turned else (weight[1] * groups, weight[0])
        found |= {"in_channels": into, "out_channels": out}
    for name in ("num_features", "num_channels", "num_parameters"):
        if name in held and len(weight) == 1:
            found[name] = weight[0]
    if "embedding_dim" in held:
        found |= {"num_embeddings": weight[0], "embedding_dim": weight[1]}
    if "hidden_size" in held and "input_size" in held:
        found |= {"input_size": weight[1], "hidden_size": own.get("weight_hh_l0", own.get("weight_hh", (0, 0)))[1]}
        if "weight_hr_l0" in own:
            found["proj_size"], found["hidden_size"] = own["weight_hr_l0"]
    return {k: v for k, v in found.items() if isinstance(held.get(k), int)}


def attention_sizes(module: MultiheadAttention) -> dict[str, int]:
    """Return what the sizes that a MultiheadAttention holds have to be."""
    size = module.embed_dim
    if module._qkv_same_embed_dim:
        key = value = size
    else:
        key, value = (w._a.shape[1] for w in (module.k_proj_weight, module.v_proj_weight) if w is not None)
    return {"head_dim": size // module.num_heads, "kdim": key, "vdim": value}
