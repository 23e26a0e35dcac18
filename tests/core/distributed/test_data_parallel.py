"""`DistributedDataParallel`, `ZeroRedundancyOptimizer`, `SyncBatchNorm`: 1, 2 and 4 ranks against one process."""

from __future__ import annotations

import pytest

from tests.core.distributed.jobs import checks, needs_mpi
from tests.core.distributed.models import close, trained
from tests.core.distributed.on_ranks import outcome

MODULE = "tests.core.distributed.checks_data_parallel"
TRAINED = [name for name in checks(MODULE) if name.split("_")[1] in ("mlp", "cnn", "gpt")]
pytestmark = needs_mpi


@pytest.fixture(scope="module")
def alone():
    """The losses of one process that knows of no group."""
    return {name: trained(name, lambda m: m, data=lambda x: x) for name in ("mlp", "cnn", "gpt")}


@pytest.mark.parametrize("n", [1, 2, 4])
@pytest.mark.parametrize("name", checks(MODULE))
def test_on_ranks(n, name):
    outcome(MODULE, n, name)


@pytest.mark.parametrize("n", [1, 2, 4])
@pytest.mark.parametrize("name", TRAINED)
def test_losses_are_those_of_one_process(n, name, alone):
    found = outcome(MODULE, n, name)
    assert all(f == found[0] for f in found)
    assert found[0][0] > found[0][-1]
    assert close(found[0], alone[name.split("_")[1]])


@pytest.mark.parametrize("n", [2, 4])
def test_most_bytes_are_sent_before_the_pass_ends(n):
    for shares in outcome(MODULE, n, "check_most_is_sent_before_the_pass_ends"):
        assert min(shares.values()) >= 0.6
