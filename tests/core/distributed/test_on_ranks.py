"""What data-parallel, sharded and tensor-parallel models and pipelines do on 1, 2 and 4 ranks, one check at a time."""

from __future__ import annotations

import pytest

from tests.core.distributed.jobs import checks, needs_mpi
from tests.core.distributed.on_ranks import RANKS, outcome

PARTS = [
    f"tests.core.distributed.checks_{part}" for part in ("data_parallel", "sharded", "tensor_parallel", "pipeline")
]
CHECKS = [pytest.param(part, name, id=f"{part.rpartition('checks_')[2]}-{name.removeprefix('check_')}")
          for part in PARTS for name in checks(part)]  # fmt: skip
pytestmark = needs_mpi


@pytest.mark.parametrize("n", RANKS)
@pytest.mark.parametrize(("part", "name"), CHECKS)
def test_on_ranks(n, part, name):
    outcome(part, n, name)


@pytest.mark.parametrize("n", RANKS[1:])
def test_most_bytes_are_sent_before_the_pass_ends(n):
    for shares in outcome(PARTS[0], n, "check_most_is_sent_before_the_pass_ends"):
        assert min(shares.values()) >= 0.6
