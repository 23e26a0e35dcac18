"""The Transformer family and every argument of attention against PyTorch: outputs, gradients, keys, first weights."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import core  # noqa: E402

pytestmark = [
    pytest.mark.filterwarnings("ignore:enable_nested_tensor is True"),
    pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors"),
    pytest.mark.filterwarnings("ignore:Support for mismatched"),
]
rng = np.random.default_rng(0)


def both(make: Any) -> tuple[Any, Any]:
    theirs, mine = make(torch).double(), make(core).double()
    assert list(mine.state_dict()) == list(theirs.state_dict())
    mine.load_state_dict({k: core.tensor(v.numpy()) for k, v in theirs.state_dict().items()})
    return mine, theirs


def check(mine: Any, theirs: Any, inputs: list[np.ndarray], **kwargs: Any) -> None:
    """Equal outputs, equal gradients of inputs and parameters."""
    found = []
    for lib, m in ((core, mine), (torch, theirs)):
        xs = [lib.tensor(a).requires_grad_() for a in inputs]
        y = m(*xs, **{k: lib.tensor(v) if isinstance(v, np.ndarray) else v for k, v in kwargs.items()})
        many = [t for t in (y if isinstance(y, tuple) else (y,)) if t is not None]
        sum(((t * t * t).sum() for t in many), lib.zeros(())).backward()
        found.append([*(t.detach().numpy() for t in many), *(x.grad.numpy() for x in xs),
                      *(p.grad.numpy() for p in m.parameters() if p.grad is not None)])  # fmt: skip
        m.zero_grad()
    assert len(found[0]) == len(found[1])
    for got, want in zip(*found, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-8, atol=1e-9)


def x(*shape: int) -> np.ndarray:
    return rng.standard_normal(shape)


CAUSAL = np.triu(np.full((5, 5), -np.inf), 1)
PADDING = np.array([[False] * 5, [False] * 3 + [True] * 2, [False] * 4 + [True]])
LAYERS = [
    {}, {"batch_first": True}, {"norm_first": True}, {"batch_first": True, "norm_first": True},
    {"activation": "gelu"}, {"bias": False}, {"layer_norm_eps": 1e-2}, {"activation": "callable"},
]  # fmt: skip


def settings(lib: Any, s: dict[str, Any]) -> dict[str, Any]:
    return {**s, "activation": lib.nn.functional.silu} if s.get("activation") == "callable" else s


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("s", LAYERS, ids=str)
def test_encoder(s: dict[str, Any], training: bool) -> None:
    def make(lib: Any) -> Any:
        layer = lib.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, **settings(lib, s))
        return lib.nn.TransformerEncoder(layer, 2, lib.nn.LayerNorm(8)).train(training)

    mine, theirs = both(make)
    data = [x(3, 5, 8) if s.get("batch_first") else x(5, 3, 8)]
    check(mine, theirs, data)
    check(mine, theirs, data, mask=CAUSAL)
    check(mine, theirs, data, mask=np.triu(np.ones((5, 5), bool), 1), is_causal=True)
    check(mine, theirs, data, mask=x(5, 5), src_key_padding_mask=PADDING)
    check(mine, theirs, data, mask=x(6, 5, 5), src_key_padding_mask=np.where(PADDING, -np.inf, 0.0))
    check(mine, theirs, [x(5, 8)], mask=CAUSAL)
    check(mine, theirs, [x(5, 8)], src_key_padding_mask=PADDING[1])


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("s", LAYERS, ids=str)
def test_decoder(s: dict[str, Any], training: bool) -> None:
    def make(lib: Any) -> Any:
        layer = lib.nn.TransformerDecoderLayer(8, 2, 16, dropout=0.0, **settings(lib, s))
        return lib.nn.TransformerDecoder(layer, 2).train(training)

    mine, theirs = both(make)
    data = [x(3, 5, 8), x(3, 4, 8)] if s.get("batch_first") else [x(5, 3, 8), x(4, 3, 8)]
    check(mine, theirs, data)
    check(mine, theirs, data, tgt_mask=CAUSAL, memory_mask=x(5, 4))
    check(mine, theirs, data, tgt_mask=CAUSAL, tgt_is_causal=True, tgt_key_padding_mask=PADDING,
          memory_key_padding_mask=PADDING[:, 1:])  # fmt: skip
    check(mine, theirs, [x(5, 8), x(4, 8)], tgt_mask=CAUSAL)


@pytest.mark.parametrize("s", [{}, {"batch_first": True, "norm_first": True, "activation": "gelu"}], ids=str)
def test_transformer(s: dict[str, Any]) -> None:
    def make(lib: Any) -> Any:
        return lib.nn.Transformer(8, 2, 2, 1, 16, dropout=0.0, **s)

    mine, theirs = both(make)
    data = [x(3, 4, 8), x(3, 5, 8)] if s else [x(4, 3, 8), x(5, 3, 8)]
    mask = mine.generate_square_subsequent_mask(5, dtype=core.float64)
    np.testing.assert_array_equal(mask.numpy(), theirs.generate_square_subsequent_mask(5).numpy())
    check(mine, theirs, data, tgt_mask=CAUSAL)
    check(mine, theirs, data, src_mask=x(4, 4), tgt_mask=CAUSAL, memory_mask=x(5, 4),
          src_key_padding_mask=PADDING[:, 1:], tgt_key_padding_mask=PADDING,
          memory_key_padding_mask=PADDING[:, 1:], tgt_is_causal=True)  # fmt: skip
    assert repr(mine) == repr(theirs)


def test_first_weights() -> None:
    """Drawn in PyTorch's order, layer norms and copies included."""
    for make in (
        lambda lib: lib.nn.Transformer(8, 2, 2, 2, 16),
        lambda lib: lib.nn.TransformerEncoder(lib.nn.TransformerEncoderLayer(8, 2, 16), 3),
        lambda lib: lib.nn.MultiheadAttention(8, 2, kdim=3, vdim=5, add_bias_kv=True),
    ):
        torch.manual_seed(0)
        core.manual_seed(0, kind="torch")
        theirs, mine = make(torch), make(core)
        for (k, a), (other, b) in zip(mine.state_dict().items(), theirs.state_dict().items(), strict=True):
            assert k == other
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5, atol=1e-7, err_msg=k)
    core.manual_seed(0)


def test_padded_positions_without_gradients() -> None:
    """PyTorch's path of nested tensors gives 0 there; ours does in the same cases."""
    for given, s, first in [
        ({"src_key_padding_mask": PADDING}, {}, True),
        ({"src_key_padding_mask": PADDING[:, ::-1].copy()}, {}, True),
        ({"src_key_padding_mask": PADDING, "mask": np.zeros((5, 5), bool)}, {}, True),
        ({"src_key_padding_mask": PADDING}, {"norm_first": True}, True),
        ({"src_key_padding_mask": PADDING}, {"activation": "gelu"}, True),
        ({"src_key_padding_mask": PADDING}, {"bias": False}, True),
        ({"src_key_padding_mask": PADDING}, {}, False),
    ]:

        def make(lib: Any, s: Any = s, first: bool = first) -> Any:
            layer = lib.nn.TransformerEncoderLayer(8, 2, 16, batch_first=first, **s)
            return lib.nn.TransformerEncoder(layer, 2).eval()

        mine, theirs = both(make)
        data = x(3, 5, 8) if first else x(5, 3, 8)
        with torch.no_grad(), core.no_grad():
            got = mine(core.tensor(data), **{k: core.tensor(v) for k, v in given.items()})
            want = theirs(torch.tensor(data), **{k: torch.tensor(v) for k, v in given.items()})
        np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-6, atol=1e-7)


ATTENTIONS = [
    {}, {"need_weights": False}, {"average_attn_weights": False}, {"attn_mask": x(5, 4)},
    {"attn_mask": x(5, 4) > 0.5, "need_weights": False}, {"attn_mask": x(6, 5, 4)},
    {"key_padding_mask": PADDING[:, 1:]}, {"key_padding_mask": PADDING[:, 1:], "need_weights": False},
    {"key_padding_mask": PADDING[:, 1:], "attn_mask": x(5, 4), "need_weights": False},
    {"is_causal": True, "attn_mask": np.triu(np.ones((5, 4), bool), 1), "need_weights": False},
    {"is_causal": True, "attn_mask": np.triu(np.ones((5, 4), bool), 1)},
]  # fmt: skip
MADE = [
    {}, {"batch_first": True}, {"bias": False}, {"add_bias_kv": True}, {"add_zero_attn": True},
    {"add_bias_kv": True, "add_zero_attn": True, "batch_first": True}, {"kdim": 6, "vdim": 7},
    {"kdim": 6, "vdim": 7, "batch_first": True, "bias": False},
]  # fmt: skip


@pytest.mark.parametrize("made", MADE, ids=str)
@pytest.mark.parametrize("called", ATTENTIONS, ids=lambda d: ",".join(d))
def test_multihead(made: dict[str, Any], called: dict[str, Any]) -> None:
    mine, theirs = both(lambda lib: lib.nn.MultiheadAttention(8, 2, **made))
    shapes = [(5, 3, 8), (4, 3, made.get("kdim", 8)), (4, 3, made.get("vdim", 8))]
    data = [x(s[1], s[0], s[2]) if made.get("batch_first") else x(*s) for s in shapes]
    if (
        called.get("is_causal")
        and not called.get("need_weights", True)
        and ("add_bias_kv" in made or "add_zero_attn" in made)
    ):
        return  # PyTorch's own rule for a causal mask over keys that were added differs between its versions
    check(mine, theirs, data, **called)


@pytest.mark.parametrize("called", [{}, {"need_weights": False}, {"attn_mask": x(2, 5, 4)}, {"attn_mask": x(5, 4)},
                                    {"key_padding_mask": PADDING[1, 1:]},
                                    {"average_attn_weights": False}], ids=str)  # fmt: skip
def test_multihead_without_a_batch(called: dict[str, Any]) -> None:
    mine, theirs = both(lambda lib: lib.nn.MultiheadAttention(8, 2))
    check(mine, theirs, [x(5, 8), x(4, 8), x(4, 8)], **called)


def test_merged_masks() -> None:
    mine, theirs = both(lambda lib: lib.nn.MultiheadAttention(8, 2))
    q = x(3, 5, 8)
    for mask in (None, CAUSAL < 0, np.tile(CAUSAL < 0, (6, 1, 1)).reshape(3, 2, 5, 5).reshape(6, 5, 5)):
        for padding in (None, PADDING):
            results = []
            for lib, m in ((core, mine), (torch, theirs)):
                given = [None if a is None else lib.tensor(a) for a in (mask, padding)]
                merged, kind = m.merge_masks(*given, lib.tensor(q))
                results.append((None if merged is None else merged.numpy(), kind))
            assert results[0][1] == results[1][1]
            np.testing.assert_array_equal(results[0][0], results[1][0])


SCALED = [
    {}, {"is_causal": True}, {"scale": 0.3}, {"scale": -0.5, "is_causal": True}, {"attn_mask": x(5, 4) > 0},
    {"attn_mask": x(3, 4, 5, 4)}, {"attn_mask": x(3, 1, 5, 4) > 0.9},
    {"attn_mask": np.where(x(5, 4) > 0, -np.inf, 0.0)}, {"attn_mask": np.zeros((5, 4), bool)}, {"attn_mask": x(1, 4)},
]  # fmt: skip


@pytest.mark.parametrize("kwargs", SCALED, ids=str)
@pytest.mark.parametrize("heads", [(4, 4, 4), (4, 2, 2), (4, 1, 1), (4, 2, 4)])
def test_scaled_dot_product(kwargs: dict[str, Any], heads: tuple[int, int, int]) -> None:
    a, b, c = heads
    data = [x(3, a, 5, 6), x(3, b, 4, 6), x(3, c, 4, 7)]

    def make(lib: Any) -> Any:
        class M(lib.nn.Module):  # type: ignore[name-defined, misc]
            def forward(self, *args: Any, **kwargs: Any) -> Any:
                return lib.nn.functional.scaled_dot_product_attention(*args, enable_gqa=len(set(heads)) > 1, **kwargs)

        return M()

    check(make(core), make(torch), data, **kwargs)
    with core.nn.attention.sdpa_kernel(core.nn.attention.SDPBackend.MATH):
        check(make(core), make(torch), data, **kwargs)


def outcome(f: Any) -> tuple[str, str]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            f()
    except Exception as e:
        return type(e).__name__, str(e).replace("torch.", "core.").split("\n")[0][:60]
    return "fine", ""


def _calls(lib: Any) -> list[Any]:
    m, m2 = lib.nn.MultiheadAttention(4, 2), lib.nn.MultiheadAttention(4, 2, kdim=3, vdim=5)
    o, z = lib.ones, lib.zeros
    batch, alone = o(3, 2, 4), o(3, 4)
    sdp, q, k = lib.nn.functional.scaled_dot_product_attention, o(2, 4, 3, 8), o(2, 2, 5, 8)
    t = lib.nn.Transformer(4, 2, 1, 1, 8)
    a = lib.nn.attention
    return [
        lambda: m(alone, alone, alone, attn_mask=z(4, 3, 3)),
        lambda: m(batch, batch, batch, attn_mask=z(1, 4, 3, 3)),
        lambda: m(batch, batch, batch, attn_mask=z(2, 3, 3)),
        lambda: m(batch, batch, batch, attn_mask=z(3, 3, dtype=lib.int64)),
        lambda: m(batch, batch, batch, key_padding_mask=z(2, 3, dtype=lib.int64)),
        lambda: m(batch, batch, batch, key_padding_mask=z(2, 4, dtype=lib.bool)),
        lambda: m(batch, batch, batch, key_padding_mask=z(3, 2, dtype=lib.bool)),
        lambda: m(batch, batch, batch, key_padding_mask=z(3, dtype=lib.bool)),
        lambda: m(batch, batch, batch, is_causal=True),
        lambda: m(o(3, 2, 5), batch, batch),
        lambda: m(batch, o(4, 2, 4), batch),
        lambda: m(batch, alone, alone),
        lambda: m(o(4), o(4), o(4)),
        lambda: m(batch, o(3, 5, 4), o(3, 5, 4)),
        lambda: m2(batch, o(3, 2, 3), o(4, 2, 5)),
        lambda: lib.nn.MultiheadAttention(4, 3),
        lambda: lib.nn.MultiheadAttention(0, 3),
        lambda: sdp(q, k, k),
        lambda: sdp(o(2, 3, 3, 8), k, k, enable_gqa=True),
        lambda: sdp(q, q, q, dropout_p=1.5),
        lambda: sdp(q, q, q, attn_mask=z(3, 4)),
        lambda: sdp(q, q, q, attn_mask=z(3, 3, dtype=lib.int64)),
        lambda: sdp(q.long(), q.long(), q.long()),
        lambda: sdp(q, q, 3),
        lambda: sdp(q[0, 0, 0], q, q),
        lambda: t(o(3, 2, 4), o(3, 5, 4)),
        lambda: t(o(3, 2, 5), o(3, 2, 5)),
        lambda: lib.nn.TransformerEncoderLayer(4, 2, activation="silu"),
        lambda: a.sdpa_kernel(3).__enter__(),
        lambda: a.sdpa_kernel("math").__enter__(),
    ]


def test_errors() -> None:
    for i, (mine, theirs) in enumerate(zip(_calls(core), _calls(torch), strict=True)):
        assert outcome(mine) == outcome(theirs), i


def test_chosen_backends() -> None:
    for lib in (core, torch):
        q, f = lib.ones(2, 4, 3, 8), lib.nn.functional.scaled_dot_product_attention
        b, kernel = lib.nn.attention.SDPBackend, lib.nn.attention.sdpa_kernel
        for ways, fine in [(b.MATH, True), (b.FLASH_ATTENTION, True), ([b.EFFICIENT_ATTENTION], False), ([], False),
                           ([b.EFFICIENT_ATTENTION, b.MATH], True)]:  # fmt: skip
            with kernel(ways):
                found = outcome(lambda f=f, q=q: f(q, q, q))
            assert found[0] == ("fine" if fine else "RuntimeError"), (lib, ways)
            assert outcome(lambda f=f, q=q: f(q, q, q))[0] == "fine"
        assert {n: int(v.value if lib is core else v) for n, v in b.__members__.items()} == {
            "ERROR": -1, "MATH": 0, "FLASH_ATTENTION": 1, "EFFICIENT_ATTENTION": 2, "CUDNN_ATTENTION": 3,
            "OVERRIDEABLE": 4,
        }  # fmt: skip
