"""A generator of kind "torch" against PyTorch's own numbers, which this environment has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import core

DRAWS = """
t.rand(7)
t.rand(3, 5, dtype=t.float64)
t.rand(7, dtype=t.float16)
t.rand(7, dtype=t.bfloat16)
t.rand_like(t.ones(2, 3))
t.randn(5)
t.randn(5, dtype=t.float64)
t.randn(5, dtype=t.float16)
t.randn(16)
t.randn(100)
t.randn(100, 1000)
t.randn(100, dtype=t.float64)
t.randn(3, 7, 7)
t.cat([t.randn(3), t.randn(4), t.rand(2), t.randn(20)])
t.randn_like(t.ones(4, 4))
t.randint(10, (9,))
t.randint(-5, 2**40, (9,))
t.randint(2**28 - 1, (9,))
t.randint(2**28, (9,))
t.randint(-7, 2**31 - 7, (9,))
t.zeros(5, dtype=t.int64).random_(2**30)
t.zeros(5, dtype=t.int32).random_(-9, 2**31 - 1)
t.randint(3, (9,), dtype=t.int32)
t.randperm(1)
t.randperm(200)
t.normal(1.5, 2.3, (40,))
t.normal(t.zeros(20) + 1, 2.3)
t.normal(t.zeros(20), t.ones(20) * 2)
t.bernoulli(t.full((20,), 0.3))
t.bernoulli(t.full((20,), 0.3, dtype=t.float64))
t.zeros(20).bernoulli_(0.3)
t.zeros(20).uniform_(-2, 3)
t.zeros(2000).uniform_(-0.1, 0.2)
t.zeros(20, dtype=t.float64).uniform_(-2, 3)
t.zeros(20).normal_(1, 3.3)
t.zeros(7).normal_(1, 3.3)
t.zeros(20, dtype=t.float64).normal_(1, 3.3)
t.zeros(5, dtype=t.int64).random_()
t.zeros(5, dtype=t.int32).random_()
t.zeros(5).random_()
t.zeros(5).random_(9)
t.zeros(5).random_(3, 9)
t.multinomial(t.tensor([0.1, 0.2, 0.7]), 10, replacement=True)
t.multinomial(t.tensor([[0.1, 0.2, 0.7], [1.0, 2.0, 0.0]]), 10, replacement=True)
t.multinomial(t.tensor([[0.1, 0.2, 0.7], [1.0, 2.0, 0.0]]), 1)
t.multinomial(t.tensor([[0.1, 0.2, 0.7], [1.0, 2.0, 0.0]]), 1, replacement=True)
t.multinomial(t.arange(1.0, 10.0), 4)
t.zeros(100).exponential_()
t.zeros(7).exponential_(2.0)
t.nn.functional.gumbel_softmax(t.arange(6.0), hard=True)
t.distributions.Categorical(logits=t.zeros(5, 3)).sample()
""".strip().splitlines()


@pytest.mark.parametrize("text", DRAWS)
def test_same_numbers(text: str) -> None:
    f: Callable[[Any], Any] = eval("lambda t: " + text)
    avx2 = torch.backends.cpu.get_cpu_capability() in ("AVX2", "AVX512")
    for seed in (0, 5, 2**40 + 1):
        torch.manual_seed(seed)
        core.manual_seed(seed, kind="torch")
        theirs, mine = f(torch), f(core)
        assert str(theirs.dtype).split(".")[1] == mine.dtype.name
        a, b = theirs.double().numpy(), mine.double().numpy()
        np.testing.assert_allclose(b, a, rtol=0, atol=0 if avx2 or "norm" not in text else 5e-6)
    core.manual_seed(0)


def test_a_generator_of_its_own_and_its_state() -> None:
    theirs, mine = torch.Generator().manual_seed(3), core.Generator(kind="torch").manual_seed(3)
    assert torch.randn(3, generator=theirs).tolist() == core.randn(3, generator=mine).tolist()
    states = theirs.get_state(), mine.get_state()
    first = torch.rand(4, generator=theirs).tolist(), core.rand(4, generator=mine).tolist()
    theirs.set_state(states[0])
    mine.set_state(states[1])
    assert first[0] == first[1] == torch.rand(4, generator=theirs).tolist() == core.rand(4, generator=mine).tolist()
    assert theirs.initial_seed() == mine.initial_seed() == 3


def test_seeds() -> None:
    assert torch.manual_seed(-1).initial_seed() == core.manual_seed(-1).initial_seed()
    for lib in (torch, core):
        with pytest.raises(ValueError, match="Overflow when unpacking long"):
            lib.manual_seed(2**64)
