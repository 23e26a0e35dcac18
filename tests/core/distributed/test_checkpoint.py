"""Checkpoints that 1, 2 and 4 ranks write, and 1, 2 and 4 ranks read."""

from __future__ import annotations

import json

import pytest

import core
from core.distributed import checkpoint
from tests.core.distributed import checkpointed, jobs
from tests.core.distributed.models import Gpt, batches, close

RANKS = (1, 2, 4)
pytestmark = jobs.needs_mpi


def told(n, *args):
    code, out, errors = jobs.ranks(n, "-m", checkpointed.__name__, *map(str, args), limit_s=180)
    assert code == 0, f"{out}\n{errors}"
    return json.loads(next(line for line in out.splitlines() if line.startswith("RESULT")).removeprefix("RESULT "))


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A folder with the checkpoints of all numbers of ranks, and what they say of a failure."""
    folder = tmp_path_factory.mktemp("checkpoints")
    return folder, {n: told(n, "save", folder) for n in RANKS}


@pytest.fixture(scope="module")
def undisturbed():
    core.manual_seed(0)
    model = Gpt()
    opt = core.optim.AdamW(model.parameters(), lr=1e-2)
    return checkpointed.steps(model, opt, lambda x: x, batches("gpt", 10))[5:]


@pytest.mark.parametrize("n", RANKS)
def test_training_goes_on_in_any_number_of_ranks(n, written, undisturbed):
    found = told(n, "load", written[0], *RANKS)
    assert len(found) == len(RANKS) * (2 * len(checkpointed.KINDS) - 1)
    wrong = {k: v for k, v in found.items() if not close(v, undisturbed)}
    assert not wrong


@pytest.mark.parametrize("n", RANKS[1:])
def test_a_rank_that_cannot_write_is_named_on_all(n, written):
    for said in written[1][n]:
        assert "rank 1 could not write its part" in said


def test_one_process_reads_the_whole(written, tmp_path):
    folder = written[0] / "fully_shard4"
    told = checkpoint.FileSystemReader(folder).read_metadata().state_dict_metadata["model.blocks.0.q.weight"]
    assert told.size == (32, 32)
    assert [c.offsets for c in told.chunks] == [(0, 0), (8, 0), (16, 0), (24, 0)]
    checkpoint.dcp_to_torch_save(folder, tmp_path / "one.pt")
    state = core.load(tmp_path / "one.pt", weights_only=False)
    assert state["model.blocks.0.q.weight"].shape == (32, 32)
    assert state["step"] == 5
