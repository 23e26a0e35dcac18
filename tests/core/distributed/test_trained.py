"""Every way of training on 1, 2 and 4 ranks against one process: losses of 20 steps within 1e-5."""

from __future__ import annotations

import pytest

from tests.core.distributed import checks_trained, stages
from tests.core.distributed.jobs import needs_mpi
from tests.core.distributed.models import MODELS, close, trained
from tests.core.distributed.on_ranks import RANKS, outcome

pytestmark = needs_mpi


@pytest.fixture(scope="module")
def alone():
    """The losses of one process that knows of no group: of whole models, and of those that are cut into stages."""
    return {False: {name: trained(name, lambda m: m, data=lambda x: x) for name in MODELS},
            True: {name: stages.alone(name) for name in MODELS}}  # fmt: skip


@pytest.mark.parametrize("n", RANKS)
@pytest.mark.parametrize("name", checks_trained.CASES)
def test_losses_are_those_of_one_process(n, name, alone):
    found = outcome(checks_trained.__name__, n, name)
    assert all(f == found[0] for f in found)
    assert found[0][0] > found[0][-1]
    assert close(found[0], alone["pipeline" in name][name.rpartition("_")[2]])
