"""What every test shares: Triton's interpreter in place of a GPU, a seeded generator, a clean slate after each; and how
`pytest -n auto` (pytest-xdist) deals the files out."""

from __future__ import annotations

import os

os.environ["TRITON_INTERPRET"] = "1"  # before anything imports triton

import gc
import signal
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

# A shell has processes in its background ignore Ctrl-C, and so would all that tests start and send it to.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

pytest_plugins = ["tests.thinning"]  # which cases of the long sweeps run
# programs that tests run in processes of their own, beside a stand-in for the GPU's libraries
collect_ignore = ["conformance/on_double.py", "triton_kernels/double", "triton_kernels/fake_launch.py",
                  "core/backends/toy_device.py"]  # fmt: skip

MOST_PROCESSES = 8  # with more, the longest file would only be waited for


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """A file stays in one process, for its fixtures start browsers and kernels, and files come in their own order:
    pytest-xdist would begin with those of many tests, and end with one that takes a minute. `--dist` says else."""
    from .dealing import Files

    if config.getoption("dist") != "load":  # "load" is what -n stands for
        return None
    config.option.loadscopereorder = False
    return Files(config, log)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """What `-n auto` is: the processors that this process may use, not the fewer cores that they may be threads of."""
    return min(len(os.sched_getaffinity(0)), MOST_PROCESSES)


def pytest_collection_finish() -> None:
    """Tests that collect garbage need not go through what pytest knows of all the others, half a second each time."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    """Let go of it at the end: libraries look then for objects of theirs that nobody has freed."""
    gc.unfreeze()


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
