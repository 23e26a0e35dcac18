"""`PipelineStage` and its schedules: 1, 2 and 4 ranks against one process."""

from __future__ import annotations

import pytest

from tests.core.distributed import checks_pipeline
from tests.core.distributed.jobs import checks, needs_mpi
from tests.core.distributed.models import close
from tests.core.distributed.on_ranks import outcome

MODULE = checks_pipeline.__name__
TRAINED = [name for name in checks(MODULE) if name.split("_")[1] in ("mlp", "gpt")]
pytestmark = needs_mpi


@pytest.fixture(scope="module")
def alone():
    """The losses of one process that knows of no group."""
    return {name: checks_pipeline.alone(name) for name in ("mlp", "gpt")}


@pytest.mark.parametrize("n", [1, 2, 4])
@pytest.mark.parametrize("name", checks(MODULE))
def test_on_ranks(n, name):
    outcome(MODULE, n, name)


@pytest.mark.parametrize("n", [1, 2, 4])
@pytest.mark.parametrize("name", TRAINED)
def test_losses_are_those_of_one_process(n, name, alone):
    found = outcome(MODULE, n, name)
    assert all(f == found[0] for f in found)
    assert close(found[0], alone[name.split("_")[1]])
