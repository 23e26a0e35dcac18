"""Recurrent layers against PyTorch: the whole grid of configurations, packed sequences, cells, initial weights,
dropout's numbers, errors, and 200 steps of training."""

from __future__ import annotations

import inspect
import itertools
import warnings
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import core  # noqa: E402

KINDS = ["LSTM", "GRU", "RNN", "RNN relu", "LSTM proj"]
FORMS = ["dense", "unbatched", "packed", "packed unsorted"]


@pytest.fixture(autouse=True)
def one_thread() -> Any:
    """On a busy machine PyTorch's threads wait for one another fifty times longer than they work."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def _layer(lib: Any, kind: str, *args: Any, **kwargs: Any) -> Any:
    if kind == "RNN relu":
        kwargs["nonlinearity"] = "relu"
    if kind == "LSTM proj":
        kwargs["proj_size"] = 3
    return getattr(lib.nn, kind.split()[0])(*args, **kwargs)


def _tensors(value: Any) -> list[Any]:
    """All tensors in a result."""
    if isinstance(value, tuple | list):
        return [t for v in value for t in _tensors(v)]
    return [] if value is None else [value]


def _run(lib: Any, kind: str, form: str, layers: int, both: bool, first: bool, bias: bool, initial: bool, dtype: str,
         weights: list[Any]) -> list[Any]:  # fmt: skip
    rng = np.random.default_rng(1)
    layer = _layer(lib, kind, 4, 5, layers, bias=bias, batch_first=first, bidirectional=both)
    for p, w in zip(layer.parameters(), weights, strict=True):
        p.data = lib.from_numpy(w.copy())
    steps, batch = 6, 3
    shape = (batch, steps, 4) if first else (steps, batch, 4)
    x = rng.standard_normal(shape if form != "unbatched" else (steps, 4)).astype(dtype)
    leaf = lib.from_numpy(x).requires_grad_()
    given = leaf
    if form.startswith("packed"):
        lengths = [6, 4, 1] if form == "packed" else [4, 6, 1]
        given = lib.nn.utils.rnn.pack_padded_sequence(leaf, lib.tensor(lengths), first, enforce_sorted=form == "packed")
    hx = None
    states: list[Any] = []
    if initial:
        widths = [3 if "proj" in kind else 5, 5][: 2 if "LSTM" in kind else 1]
        lead = (layers * (2 if both else 1), *(() if form == "unbatched" else (batch,)))
        states = [lib.from_numpy(rng.standard_normal((*lead, w)).astype(dtype)).requires_grad_() for w in widths]
        hx = tuple(states) if len(states) == 2 else states[0]
    found = _tensors(layer(given, hx))
    floats = [t for t in found if t.requires_grad]
    loss = sum(
        (t * lib.from_numpy(np.asarray(rng.standard_normal(tuple(t.shape))).astype(dtype))).sum() for t in floats
    )
    loss.backward()
    grads = [leaf.grad, *(s.grad for s in states), *(p.grad for p in layer.parameters())]
    return [t.detach().numpy() for t in found + grads]


@pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", KINDS)
def test_every_configuration(kind: str, form: str) -> None:
    """Outputs, states, and the gradients of the input, the initial states and all weights."""
    for layers, both, first, bias, initial, dtype in itertools.product(
        (1, 2), (False, True), (False, True), (True, False), (False, True), ("float64", "float32")
    ):
        if dtype == "float32" and (layers, both, initial) != (2, True, True):
            continue  # float64 shows the meaning of each option, float32 that oneDNN's kernels mean the same
        options = (kind, form, layers, both, first, bias, initial, dtype)
        like = _layer(torch, kind, 4, 5, layers, bias=bias, bidirectional=both)
        rng = np.random.default_rng(0)
        weights = [rng.uniform(-0.6, 0.6, tuple(p.shape)).astype(dtype) for p in like.parameters()]
        theirs, mine = _run(torch, *options, weights), _run(core, *options, weights)
        assert len(theirs) == len(mine)
        for a, b in zip(theirs, mine, strict=True):
            tolerance = 1e-9 if dtype == "float64" else 2e-5
            np.testing.assert_allclose(b, a, rtol=tolerance, atol=tolerance, err_msg=str(options))
            assert a.dtype == b.dtype


CELLS = ["LSTMCell(3, 5)", "LSTMCell(3, 5, bias=False)", "GRUCell(3, 5)", "GRUCell(3, 5, bias=False)", "RNNCell(3, 5)",
         "RNNCell(3, 5, nonlinearity='relu')"]  # fmt: skip


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("batched", [True, False])
def test_cells(cell: str, batched: bool) -> None:
    found = []
    for lib in (torch, core):
        rng = np.random.default_rng(0)
        layer = eval("nn." + cell, {"nn": lib.nn}).double()
        for p in layer.parameters():
            p.data = lib.from_numpy(rng.uniform(-0.6, 0.6, tuple(p.shape)))
        lead = (4,) if batched else ()
        x, *states = (lib.from_numpy(rng.standard_normal((*lead, n))).requires_grad_() for n in (3, 5, 5))
        hx: Any = tuple(states) if "LSTM" in cell else states[0]
        outs = []
        for state in (None, hx):
            for _ in range(3):
                state = layer(x, state)
            outs += _tensors(state)
        sum((o * o).sum() for o in outs).backward()
        used = states if "LSTM" in cell else states[:1]
        grads = [x.grad, *(s.grad for s in used), *(p.grad for p in layer.parameters())]
        found.append([repr(layer), list(layer.state_dict()), *(t.detach().numpy() for t in outs + grads)])
    _same(*found)


def _same(theirs: list[Any], mine: list[Any]) -> None:
    assert len(theirs) == len(mine)
    for a, b in zip(theirs, mine, strict=True):
        if isinstance(a, np.ndarray):
            np.testing.assert_allclose(b, a, rtol=1e-9, atol=1e-11)
        else:
            assert a == b


MADE = ["LSTM(3, 4, 2, bidirectional=True, proj_size=2)", "GRU(3, 4, 2, False, True, 0.5, True)",
        "RNN(3, 4, 2, 'relu', batch_first=True)", "RNN(3, 4)", "LSTM(3, 4, dtype=lib.float64)", "LSTMCell(3, 4)",
        "GRUCell(3, 4, False)", "RNNCell(3, 4, True, 'relu')"]  # fmt: skip


@pytest.mark.parametrize("text", MADE)
def test_made_alike(text: str) -> None:
    """repr, the keys of the state in their order, and under PyTorch's generator the very numbers of the weights."""
    found = []
    for lib in (torch, core):
        lib.manual_seed(7) if lib is torch else lib.manual_seed(7, kind="torch")
        layer = eval("lib.nn." + text, {"lib": lib})
        found.append([repr(layer), *(n for n, _ in layer.named_parameters()), list(layer.state_dict()),
                      *(p.detach().numpy() for p in layer.parameters())])  # fmt: skip
    core.manual_seed(0)
    for a, b in zip(*found, strict=True):
        if isinstance(a, np.ndarray):
            np.testing.assert_array_equal(b, a)
        else:
            assert a == b


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize("form", ["dense", "batch_first", "packed"])
def test_dropout_draws_the_same_numbers(kind: str, form: str) -> None:
    found = []
    for lib in (torch, core):
        lib.manual_seed(3) if lib is torch else lib.manual_seed(3, kind="torch")
        layer = getattr(lib.nn, kind)(3, 4, 3, dropout=0.4, bidirectional=True, batch_first=form == "batch_first")
        x: Any = lib.randn(5, 2, 3)
        if form == "packed":
            x = lib.nn.utils.rnn.pack_padded_sequence(x, [5, 2])
        y = layer(x)[0]
        found.append((y.data if form == "packed" else y).detach().numpy())
    core.manual_seed(0)
    np.testing.assert_allclose(found[1], found[0], rtol=1e-5, atol=1e-6)


FUNCTIONS = {
    "lstm": "f(x, (s, s), w, True, 1, 0.0, False, False, False)",
    "lstm packed": "f(x.reshape(-1, 3)[:9], b, (s, s), w, True, 1, 0.0, False, False)",
    "gru": "f(x, s, w, True, 1, 0.0, False, False, batch_first=False)",
    "gru packed": "f(x.reshape(-1, 3)[:9], b, s, w, True, 1, 0.0, False, False)",
    "rnn_tanh": "f(x, s, w, True, 1, 0.0, False, False, False)",
    "rnn_relu packed": "f(x.reshape(-1, 3)[:9], b, s, w, True, 1, 0.0, False, False)",
    "lstm_cell": "f(x[0], (s[0], s[0]), *w)",
    "gru_cell": "f(x[0], s[0], *w[:2])",
    "rnn_tanh_cell": "f(x[0], s[0], *w)",
    "rnn_relu_cell": "f(x[0], s[0], *w)",
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name: str) -> None:
    function = name.split()[0]
    gates = {"l": 4, "g": 3, "r": 1}[function[0]]
    found = []
    for lib in (torch, core):
        rng = np.random.default_rng(0)
        w = [
            lib.from_numpy(rng.standard_normal(s)) for s in ((gates * 4, 3), (gates * 4, 4), (gates * 4,), (gates * 4,))
        ]
        names = {"x": lib.from_numpy(rng.standard_normal((5, 3, 3))),
                 "s": lib.from_numpy(rng.standard_normal((1, 3, 4))), "w": w, "b": lib.tensor([3, 3, 2, 1]),
                 "f": getattr(lib, function)}  # fmt: skip
        found.append([t.numpy() for t in _tensors(eval(FUNCTIONS[name], names))])
    _same(*found)


BAD = """nn.LSTM(3, 4, dropout=1.5) | nn.LSTM(3, 4.0) | nn.LSTM(3, 0) | nn.LSTM(3, 4, 0) | nn.LSTM(3, 4, proj_size=-1)
nn.LSTM(3, 4, proj_size=4) | nn.GRU(3, 4, proj_size=2) | nn.RNN(3, 4, nonlinearity="gelu") | nn.LSTM(3, 4, bogus=1)
nn.RNNBase("XXX", 3, 4) | nn.LSTM(3, 4)(t.zeros(3)) | nn.GRU(3, 4)(t.zeros(1, 1, 1, 3))
nn.LSTM(3, 4)(t.zeros(2, 2, 4))
nn.LSTM(3, 4)(t.zeros(2, 2, 3).double()) | nn.RNN(3, 4)(t.zeros(0, 2, 3))
nn.LSTM(3, 4)(t.zeros(2, 2, 3), (t.zeros(2, 4), t.zeros(2, 4)))
nn.LSTM(3, 4)(t.zeros(2, 3), (t.zeros(1, 2, 4), t.zeros(1, 2, 4)))
nn.LSTM(3, 4)(t.zeros(2, 2, 3), (t.zeros(1, 3, 4), t.zeros(1, 3, 4)))
nn.LSTM(3, 4)(t.zeros(2, 2, 3), (t.zeros(1, 2, 4), t.zeros(1, 2, 5)))
nn.GRU(3, 4)(t.zeros(2, 2, 3), t.zeros(2, 4)) | nn.GRU(3, 4)(t.zeros(2, 2, 3), t.zeros(1, 3, 4))
nn.RNNCell(3, 4)(t.zeros(1, 2, 3)) | nn.RNNCell(3, 4)(t.zeros(2, 4)) | nn.RNNCell(3, 4)(t.zeros(2, 3), t.zeros(2, 3))
nn.LSTMCell(3, 4)(t.zeros(2, 3), t.zeros(2, 4)) | nn.LSTMCell(3, 4)(t.zeros(2, 3), (t.zeros(2, 4), t.zeros(3, 4)))
nn.RNNCell(3, 4, nonlinearity="x")(t.zeros(2, 3)) | nn.GRUCell(3, 4)(t.zeros(2, 3).double())
t.lstm(t.zeros(5, 2, 3), (t.zeros(1, 2, 4),), [t.zeros(16, 3), t.zeros(16, 4)], False, 1, 0.0, False, False, False)
t.gru(t.zeros(5, 2, 3), t.zeros(1, 2, 4), [t.zeros(12, 3)], False, 1, 0.0, False, False, False)
R.pack_padded_sequence(t.zeros(4, 3), [1, 3, 4]) | R.pack_padded_sequence(t.zeros(4, 3), [4, 3, 0])
R.pack_padded_sequence(t.zeros(4, 3), [4, 3]) | R.pack_padded_sequence(t.zeros(0, 3), [4, 3, 2])
R.pack_padded_sequence(t.zeros(4, 3), t.tensor([[4, 3, 2]])) | R.pad_packed_sequence(P, total_length=2)
R.pad_sequence([]) | R.pad_sequence(5) | R.pad_sequence([t.ones(2)], padding_side="up") | R.pad_sequence([t.ones(2), 3])
P.to(t.float64, copy=True) | R.PackedSequence(t.ones(3))
nn.GRU(1, 4)(R.pack_padded_sequence(t.zeros(4, 3, 2), [3, 2, 1]))
""".strip().replace("\n", " | ").split(" | ")  # fmt: skip


@pytest.mark.parametrize("text", BAD)
def test_errors(text: str) -> None:
    """The same class, and all of PyTorch's sentence in ours."""
    said = []
    for lib in (torch, core):
        packed = lib.nn.utils.rnn.pack_padded_sequence(lib.zeros(4, 3), [3, 2, 1])
        with pytest.raises(Exception) as caught:  # noqa: PT011
            eval(text, {"t": lib, "nn": lib.nn, "R": lib.nn.utils.rnn, "P": packed})
        said.append((caught.type, str(caught.value).replace("torch.", "core.")))
    (their_type, theirs), (my_type, mine) = said
    assert my_type is their_type
    theirs, mine = (m.replace("D tensor instead", "D instead") for m in (theirs, mine))  # only RNN says "tensor"
    assert theirs.split(" (")[0] in mine


def test_the_warning_of_dropout_without_a_second_layer() -> None:
    said = []
    for lib in (torch, core):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            lib.nn.LSTM(3, 4, dropout=0.5)
        said.append([str(w.message) for w in caught])
    assert said[0] == said[1]


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("tail", [(), (2,), (2, 3)])
@pytest.mark.parametrize("lengths", [[5, 3, 3, 1], [3, 5, 1, 3]])
def test_packing_and_padding(lengths: list[int], tail: tuple[int, ...], first: bool) -> None:
    found = []
    for lib in (torch, core):
        R, rng = lib.nn.utils.rnn, np.random.default_rng(0)
        parts = [lib.from_numpy(rng.standard_normal((n, *tail))).requires_grad_() for n in lengths]
        ordered = sorted(lengths, reverse=True) == lengths
        sides = [R.pad_sequence(parts, first, 7.0, side) for side in ("right", "left")]
        packed = R.pack_padded_sequence(sides[0], lib.tensor(lengths), first, enforce_sorted=ordered)
        padded, counts = R.pad_packed_sequence(packed, first, -1.0, 6)
        again = R.pack_sequence(parts, enforce_sorted=ordered)
        out = [
            *sides,
            *packed,
            padded,
            counts,
            *again,
            *R.unpack_sequence(again),
            *R.unpad_sequence(sides[0].clone(), counts, first),  # PyTorch's turns its argument over
        ]
        weight = [(t * t).sum() for t in out if t is not None and t.requires_grad]
        sum(weight).backward()
        out += [p.grad for p in parts]
        found.append([None if t is None else t.detach().numpy() for t in out])
    _same(*found)


def test_signatures() -> None:
    for name in ("PackedSequence.to", "pack_padded_sequence", "pad_packed_sequence", "pad_sequence", "unpad_sequence",
                 "pack_sequence", "unpack_sequence", "invert_permutation"):  # fmt: skip
        a, b = (inspect.signature(eval("R." + name, {"R": lib.nn.utils.rnn})) for lib in (torch, core))
        assert [(p.name, p.default) for p in a.parameters.values()] == [
            (p.name, p.default) for p in b.parameters.values()
        ]
    for name in ("RNNBase", "RNNCell", "LSTMCell", "GRUCell", "RNNCellBase"):
        a, b = (inspect.signature(getattr(lib.nn, name)) for lib in (torch, core))
        assert [(p.name, p.default) for p in a.parameters.values()] == [
            (p.name, p.default) for p in b.parameters.values()
        ]


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_training_for_200_steps(kind: str) -> None:
    """The next letter of a text, in float64: every loss as PyTorch's, and the weights after it."""
    words = "the quick brown fox jumps over the lazy dog and runs back to the quick brown den " * 8
    letters = sorted(set(words))
    codes = np.array([letters.index(c) for c in words])
    found = []
    for lib in (torch, core):
        lib.manual_seed(0) if lib is torch else lib.manual_seed(0, kind="torch")
        embedding, head = lib.nn.Embedding(len(letters), 8).double(), lib.nn.Linear(12, len(letters)).double()
        layer = getattr(lib.nn, kind)(8, 12, 2).double()
        parameters = [*embedding.parameters(), *layer.parameters(), *head.parameters()]
        optimizer = lib.optim.Adam(parameters, lr=0.01)
        rng, losses = np.random.default_rng(0), []
        for _ in range(200):
            at = rng.integers(0, len(codes) - 17, 4)
            x, t = (lib.from_numpy(np.stack([codes[i + k : i + k + 16] for i in at], 1)) for k in (0, 1))
            loss = lib.nn.functional.cross_entropy(head(layer(embedding(x))[0]).flatten(0, 1), t.flatten())
            optimizer.zero_grad()
            loss.backward()
            lib.nn.utils.clip_grad_norm_(parameters, 1.0)
            optimizer.step()
            losses.append(loss.item())
        found.append([np.array(losses), *(p.detach().numpy() for p in parameters)])
    core.manual_seed(0)
    assert found[1][0][-1] < 0.7 * found[1][0][0]
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-5, atol=1e-6)
