"""Writes or reads checkpoints on ranks: run by test_checkpoint.py as ``checkpointed save|load FOLDER [RANKS ...]``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import core
from core import distributed as dist
from core.distributed import checkpoint
from core.distributed.checkpoint import get_state_dict, set_state_dict
from core.distributed.device_mesh import init_device_mesh
from core.distributed.optim import ZeroRedundancyOptimizer
from core.nn.parallel import DistributedDataParallel as DDP
from tests.core.distributed.divided import gpt, mesh, sharded, wrapped
from tests.core.distributed.models import Gpt, batches, loss_of, mean, share

HALF = 5


def both_ways(model: Any) -> Any:
    """A model that is divided over one dimension of a grid, and its parts over the other; all get the whole batch."""
    n = dist.get_world_size()
    grid = init_device_mesh("cpu", (max(1, n // 2), min(n, 2)), mesh_dim_names=("data", "model"))
    return sharded(gpt(model, grid["model"]), mesh=grid["data"])


KINDS: dict[str, Any] = {
    "ddp": (DDP, share),
    "zero": (DDP, share),
    "fully_shard": (sharded, share),
    "fsdp": (wrapped, share),
    "tensor_parallel": (lambda m: gpt(m, mesh()), lambda x: x),
    "tensor_parallel_sharded": (both_ways, lambda x: x),
}


def begin(kind: str, seed: int) -> tuple[Any, Any, Any]:
    core.manual_seed(seed)
    wrap, data = KINDS[kind]
    model = wrap(Gpt())
    if kind == "zero":
        return model, ZeroRedundancyOptimizer(model.parameters(), core.optim.AdamW, lr=1e-2), data
    return model, core.optim.AdamW(model.parameters(), lr=1e-2), data


def steps(model: Any, opt: Any, data: Any, many: Any) -> list[float]:
    losses = []
    for x, y in many:
        opt.zero_grad()
        loss = loss_of(model, data(x), data(y))
        loss.backward()
        opt.step()
        losses.append(mean(loss))
    return losses


def save(folder: Path) -> None:
    """Train for five steps, and write a checkpoint of each kind: by names, and of the optimizer itself."""
    n = dist.get_world_size()
    for kind in KINDS:
        model, opt, data = begin(kind, 0)
        steps(model, opt, data, batches("gpt", HALF))
        named = get_state_dict(model, opt)
        checkpoint.save({"model": named[0], "opt": named[1], "step": HALF}, checkpoint_id=folder / f"{kind}{n}")
        sizes = [p.stat().st_size for p in (folder / f"{kind}{n}").glob("__*.distcp")]
        assert len(sizes) == n
        assert max(sizes) < 2 * min(sizes), sizes
        # again, over the first one: not a mixture of both
        checkpoint.save({"model": named[0], "opt": named[1], "step": HALF}, checkpoint_id=folder / f"{kind}{n}")
        assert len(list((folder / f"{kind}{n}").glob("__*.distcp"))) == n


def load(folder: Path, many: list[int]) -> dict[str, list[float]]:
    """Go on from each checkpoint, however many wrote it, in a new model of each kind."""
    found = {}
    for kind in KINDS:
        for n in many:
            for written in {kind, "ddp"}:  # what one kind has written another one reads
                model, opt, data = begin(kind, 1)
                named = get_state_dict(model, opt)
                state = {"model": named[0], "opt": named[1], "step": 0}
                checkpoint.load(state, checkpoint_id=folder / f"{written}{n}")
                assert state["step"] == HALF
                set_state_dict(model, opt, model_state_dict=state["model"], optim_state_dict=state["opt"])
                found[f"{kind} from {written} of {n}"] = steps(model, opt, data, batches("gpt", 2 * HALF)[HALF:])
    return found


def failing(folder: Path) -> str:
    """A process that cannot write: all of them say so, and the checkpoint before is as it was."""
    state = {"w": core.full((3,), 1.0)}
    checkpoint.save(state, checkpoint_id=folder / "failing")
    before = sorted(p.name for p in (folder / "failing").iterdir())
    bad = {"w": core.full((3,), 2.0), f"of {dist.get_rank()}": (lambda: None) if dist.get_rank() == 1 else 0}
    try:
        checkpoint.save(bad, checkpoint_id=folder / "failing")
    except RuntimeError as error:
        told = str(error)
    else:
        told = ""
    dist.barrier()
    checkpoint.load(state, checkpoint_id=folder / "failing")
    assert state["w"].tolist() == [1.0] * 3
    assert {p.name for p in (folder / "failing").iterdir()} >= set(before)
    return told


def apart(folder: Path) -> str:
    """A checkpoint that is written while training goes on is of the moment in which it was begun; two in turn; one that
    a process cannot write."""
    model, opt, data = begin("fully_shard", 0)
    many = batches("gpt", 4)
    steps(model, opt, data, many[:1])
    for k in range(2):
        work = checkpoint.async_save({"model": model, "opt": opt, "step": k}, checkpoint_id=folder / "apart")
    after = steps(model, opt, data, many[1:])
    assert "model.head.weight" in work.result().state_dict_metadata
    other, new, _ = begin("fully_shard", 1)
    state = {"model": other, "opt": new, "step": -1}
    checkpoint.load(state, checkpoint_id=folder / "apart")
    assert state["step"] == 1
    assert steps(other, new, data, many[1:]) == after
    assert len(list((folder / "apart").glob("__*.distcp"))) == dist.get_world_size()
    if dist.get_world_size() == 1:
        return ""
    bad = {"w": core.ones(3), f"of {dist.get_rank()}": lambda: None} if dist.get_rank() == 1 else {"w": core.ones(3)}
    work = checkpoint.async_save(bad, checkpoint_id=folder / "apart")
    told = str(work.exception())
    dist.barrier()
    checkpoint.load(state, checkpoint_id=folder / "apart")
    return told


def direct(folder: Path) -> None:
    """An optimizer as it is, in a state of its own making."""
    model, opt, data = begin("fully_shard", 0)
    steps(model, opt, data, batches("gpt", 2))
    checkpoint.save({"model": model, "opt": opt}, checkpoint_id=folder / "direct")
    other, new, _ = begin("fully_shard", 1)
    state = {"model": other, "opt": new}
    checkpoint.load(state, checkpoint_id=folder / "direct")
    one, two = (steps(m, o, data, batches("gpt", 4)[2:]) for m, o in ((model, opt), (other, new)))
    assert one == two, (one, two)


if __name__ == "__main__":
    core.set_num_threads(1)
    dist.init_process_group("gloo")
    what, at, *ranks = sys.argv[1:]
    told: Any = None
    if what == "save":
        save(Path(at))
        direct(Path(at))
        several = dist.get_world_size() > 1
        told = [failing(Path(at)), apart(Path(at))] if several else ["", apart(Path(at))]
    else:
        told = load(Path(at), [int(n) for n in ranks])
    if dist.get_rank() == dist.get_world_size() - 1:
        print("RESULT " + json.dumps(told))
    dist.destroy_process_group()
