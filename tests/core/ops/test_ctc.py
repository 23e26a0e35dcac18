"""The loss of unknown alignments against the sum over all of them, and the gradient against differences."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

import core

F = core.nn.functional
TIMES, CLASSES = 4, 3
LOGITS = np.random.default_rng(0).normal(size=(TIMES, 4, CLASSES))


def chances(logits: Any) -> Any:
    """The logarithms of the classes' chances."""
    return logits - np.log(np.exp(logits).sum(-1, keepdims=True))


def one_by_one(log_chances: Any, labels: list[int], blank: int) -> float:
    """The loss of one sequence from every path that reads as its labels."""
    total = 0.0
    for path in itertools.product(range(CLASSES), repeat=len(log_chances)):
        read = [label for label, _ in itertools.groupby(path) if label != blank]
        if read == labels:
            total += math.exp(sum(row[label] for row, label in zip(log_chances, path, strict=True)))
    return -math.log(total) if total else math.inf


CASES = {
    "lengths": (0, [4, 3, 2, 4], [[1, 2], [1, 1], [2], []]),
    "another blank": (1, [4, 4, 3, 1], [[0, 2], [0, 0], [2, 0], [2]]),
    "last blank": (2, [4, 2, 3, 4], [[0, 1, 0], [1], [0, 1], [1, 1]]),
}


def given(name: str) -> tuple[int, list[int], list[list[int]], Any]:
    blank, steps, labels = CASES[name]
    log = chances(LOGITS)
    want = [one_by_one(log[:n, i], row, blank) for i, (n, row) in enumerate(zip(steps, labels, strict=True))]
    return blank, steps, labels, np.array(want)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("joined", [False, True])
def test_every_alignment(name: str, joined: bool) -> None:
    blank, steps, labels, want = given(name)
    sizes = [len(row) for row in labels]
    most = max(sizes)
    padded = [row + [0] * (most - len(row)) for row in labels]
    targets = core.tensor(list(itertools.chain.from_iterable(labels)) if joined else padded)
    log = core.tensor(chances(LOGITS))
    for lengths in ((steps, sizes), (core.tensor(steps), core.tensor(sizes))):
        each = F.ctc_loss(log, targets, *lengths, blank=blank, reduction="none")
        np.testing.assert_allclose(each.numpy(), want, rtol=1e-12)
    assert F.ctc_loss(log, targets, steps, sizes, blank, "sum").item() == pytest.approx(want.sum())
    mean = (want / np.maximum(sizes, 1)).mean()
    assert F.ctc_loss(log, targets, steps, sizes, blank).item() == pytest.approx(mean)
    alone = F.ctc_loss(log[:, 0], core.tensor(labels[0]), [steps[0]], [sizes[0]], blank, "none")
    assert alone.shape == ()
    assert alone.item() == pytest.approx(want[0])


def test_labels_that_do_not_fit_into_the_time() -> None:
    log = core.tensor(chances(LOGITS))
    targets, sizes, steps = core.tensor([[1, 1], [1, 2], [2, 2], [1, 2]]), [2, 2, 2, 2], [2, 2, 3, 1]
    losses = F.ctc_loss(log, targets, steps, sizes, reduction="none")
    assert losses.isinf().tolist() == [True, False, False, True]
    spared = F.ctc_loss(log, targets, steps, sizes, reduction="none", zero_infinity=True)
    assert spared.tolist() == [0.0, losses[1].item(), losses[2].item(), 0.0]


@pytest.mark.parametrize("name", CASES)
def test_the_gradient_against_differences(name: str) -> None:
    blank, steps, labels, _ = given(name)
    sizes, targets = [len(row) for row in labels], core.tensor(list(itertools.chain.from_iterable(labels)))

    def loss(logits: Any) -> Any:
        return F.ctc_loss(F.log_softmax(logits, -1), targets, steps, sizes, blank, "sum")

    x = core.tensor(LOGITS, requires_grad=True)
    loss(x).backward()
    want = np.zeros_like(LOGITS)
    for at in np.ndindex(*LOGITS.shape):
        step = np.zeros_like(LOGITS)
        step[at] = 1e-5
        want[at] = (loss(core.tensor(LOGITS + step)) - loss(core.tensor(LOGITS - step))).item() / 2e-5
    np.testing.assert_allclose(x.grad.numpy(), want, atol=1e-8)


def test_the_gradient_of_the_logarithms_takes_their_normalisation_for_granted() -> None:
    """What PyTorch gives: chance less the share of the paths, so that it sums to 0 over the classes."""
    x = core.tensor(chances(LOGITS), requires_grad=True)
    F.ctc_loss(x, core.tensor([[1], [2], [1], [2]]), [4, 4, 2, 3], [1, 1, 1, 1], reduction="sum").backward()
    np.testing.assert_allclose(x.grad.sum(2).numpy(), 0, atol=1e-12)
    assert float(x.grad.abs().sum()) > 1
    assert x.grad[2:, 2].abs().sum().item() == 0  # after the end of a sequence nothing counts


def test_lengths_that_the_sequences_do_not_have() -> None:
    log, targets = core.tensor(chances(LOGITS)), core.tensor([[1], [1], [1], [1]])
    for steps, sizes, said in (
        ([4, 4, 4], [1] * 4, "batch_size"),
        ([4] * 4, [1] * 3, "batch_size"),
        ([4, 4, 4, 5], [1] * 4, "at most 4, but got value 5"),
        ([4, 4, 4, -1], [1] * 4, "input_lengths to have value at least 0, but got value -1"),
        ([4] * 4, [1, 1, -2, 1], "target_lengths to have value at least 0, but got value -2"),
    ):
        with pytest.raises(RuntimeError, match=said):
            F.ctc_loss(log, targets, steps, sizes)
    assert F.ctc_loss(log, targets, [4, 4, 4, 0], [0] * 4, reduction="none")[3].item() != 0


def test_labels_out_of_range_and_behind_a_sequences_end() -> None:
    log, lengths = core.tensor(chances(LOGITS)[:, :2]), core.tensor([TIMES, TIMES])
    sizes = core.tensor([2, 1])
    with pytest.raises(RuntimeError, match="out of bounds"):
        F.ctc_loss(log, core.tensor([[1, 3], [2, 1]]), lengths, sizes)
    padded, other = (F.ctc_loss(log, core.tensor([[1, 2], [2, k]]), lengths, sizes) for k in (-1, 0))
    assert padded.item() == other.item()


def test_what_is_no_number_stays_in_its_sequence() -> None:
    log, lengths = core.tensor(chances(LOGITS)), core.full((4,), TIMES, dtype=core.int64)
    want = F.ctc_loss(log, core.tensor([[1], [2], [1], [2]]), lengths, lengths // TIMES, reduction="none")
    log[1, 2, 1] = math.nan
    x = log.clone().requires_grad_()
    each = F.ctc_loss(x, core.tensor([[1], [2], [1], [2]]), lengths, lengths // TIMES, reduction="none")
    assert each.isnan().tolist() == [False, False, True, False]
    assert each[:2].tolist() == want[:2].tolist()
    each.sum().backward()
    assert x.grad.isnan().any(2).any(0).tolist() == [False, False, True, False]


def test_an_impossible_sequence() -> None:
    log, lengths = core.tensor(chances(LOGITS)[:, :2]), core.tensor([1, TIMES])
    for zero in (False, True):
        x = log.clone().requires_grad_()
        each = F.ctc_loss(x, core.tensor([[1, 2], [2, 1]]), lengths, core.tensor([2, 2]), 0, "none", zero)
        assert each[0].item() == (0 if zero else math.inf)
        each.sum().backward()
        assert x.grad[:, 0].abs().sum() == 0
