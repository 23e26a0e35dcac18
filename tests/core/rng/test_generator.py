"""Generators: seeds, states, kinds, and the default one of each device."""

from __future__ import annotations

import pickle

import pytest

import core


@pytest.mark.parametrize("kind", ["philox", "torch"])
def test_state(kind: str) -> None:
    g = core.Generator(kind=kind).manual_seed(4)
    core.randn(3, generator=g)
    state = g.get_state()
    assert state.dtype is core.uint8
    first = core.randn(20, generator=g).tolist(), core.randn(1, generator=g).item()
    for other in (g.set_state(state), pickle.loads(pickle.dumps(core.Generator().set_state(state)))):
        assert (core.randn(20, generator=other).tolist(), core.randn(1, generator=other).item()) == first
        assert (other.kind, other.initial_seed()) == (kind, 4)
    assert core.Generator().set_state(state).clone_state().get_state().tolist() == state.tolist()


def test_the_odd_normal_number_is_part_of_the_state() -> None:
    g = core.Generator(kind="torch").manual_seed(0)
    core.randn(1, generator=g)
    state = g.get_state()
    second = core.randn(1, generator=g).item()
    assert core.randn(1, generator=core.Generator().set_state(state)).item() == second


def test_seeds() -> None:
    assert core.manual_seed(7).initial_seed() == core.initial_seed() == 7
    a = core.rand(3).tolist()
    core.manual_seed(7)
    assert core.rand(3).tolist() == a
    assert core.seed() == core.initial_seed() != 7
    assert core.rand(3).tolist() != a
    assert core.manual_seed(-1).initial_seed() == 2**64 - 1
    with pytest.raises(ValueError, match="Overflow when unpacking long"):
        core.manual_seed(2**64)
    with pytest.raises(ValueError, match="unknown kind of generator 'x'"):
        core.Generator(kind="x")
    with pytest.raises(RuntimeError, match="RNG state is wrong size"):
        core.Generator().set_state(core.zeros(3, dtype=core.uint8))


def test_the_default_state_can_be_kept_and_put_back() -> None:
    state = core.get_rng_state()
    a = core.rand(2).tolist()
    core.set_rng_state(state)
    assert core.rand(2).tolist() == a
    with core.random.fork_rng():
        core.manual_seed(0)
    core.set_rng_state(state)
    assert core.rand(2).tolist() == a


def test_a_mask_is_the_same_on_every_device() -> None:
    core.manual_seed(3)
    here, there = core.bernoulli(core.full((50,), 0.5)), core.bernoulli(core.full((50,), 0.5, device="cuda"))
    assert there.is_cuda
    assert here.tolist() == there.tolist()
    assert core.rand(4).tolist() == core.rand(4, device="cuda").tolist()


def test_a_kernel_can_make_its_numbers_itself() -> None:
    g = core.Generator().manual_seed(1)
    assert g.take(10) == (1, 0)
    assert g.take(1) == (1, 10)
    assert core.Generator(kind="torch").take(1) is None
    assert core.random.fork(8).initial_seed() == 8
