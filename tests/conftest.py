"""What every test shares: Triton's interpreter in place of a GPU, a seeded generator, a clean slate after each."""

from __future__ import annotations

import os

os.environ["TRITON_INTERPRET"] = "1"  # before anything imports triton

import signal
from collections.abc import Iterator

import numpy as np
import pytest

# A shell has processes in its background ignore Ctrl-C, and so would all that tests start and send it to.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

pytest_plugins = ["tests.thinning"]  # which cases of the long sweeps run
# programs that tests run in processes of their own, beside a stand-in for the GPU's libraries
collect_ignore = ["conformance/on_double.py", "triton_kernels/double", "triton_kernels/fake_launch.py",
                  "core/backends/toy_device.py"]  # fmt: skip


@pytest.fixture
def rng() -> np.random.Generator:
    """A generator with the same numbers in every run."""
    return np.random.default_rng(0)


@pytest.fixture(autouse=True)
def as_it_was() -> Iterator[None]:
    """A test that leaves an observer, a grad mode or a default dtype behind fails itself, not the next one."""
    from core.base import dtypes, modes
    from core.events import observe

    yield
    left = []
    if observe.observers:
        left.append(f"observers {observe.observers}")
        observe.observers = ()
    if not modes.state.enabled:
        left.append("gradients switched off")
        modes.state.enabled = True
    if dtypes.get_default_dtype() is not dtypes.float32:
        left.append(f"default dtype {dtypes.get_default_dtype()}")
        dtypes.set_default_dtype(dtypes.float32)
    assert not left, f"the test left behind: {', '.join(left)}"
