"""Models divided over one process: FSDP, DTensor, checkpoints in folders, optimizers of divided states."""

from __future__ import annotations

import pytest

import core
from core import nn
from core.distributed import algorithms, checkpoint, fsdp
from core.distributed.optim import PostLocalSGDOptimizer, ZeroRedundancyOptimizer
from core.distributed.tensor import (
    ColwiseParallel,
    DTensor,
    Replicate,
    RowwiseParallel,
    Shard,
    distribute_tensor,
    init_device_mesh,
    local_map,
    parallelize_module,
)

FSDP = fsdp.FullyShardedDataParallel


@pytest.fixture(autouse=True)
def group():
    core.distributed.init_process_group("gloo", world_size=1, rank=0)
    yield
    core.distributed.destroy_process_group()


def model():
    core.manual_seed(0)
    return nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1))


def trained(m, opt):
    for _ in range(2):
        opt.zero_grad()
        m(core.ones(4, 2)).sum().backward()
        opt.step()
    return [p.tolist() for p in m.parameters()]


def test_a_wrapped_module_trains_as_it_is():
    plain, inner = model(), model()
    wrapped = FSDP(inner)
    assert trained(plain, core.optim.Adam(plain.parameters())) == trained(
        wrapped, core.optim.Adam(wrapped.parameters())
    )
    assert list(wrapped.state_dict()) == list(plain.state_dict()) == [n for n, _ in wrapped.named_parameters()]
    assert wrapped.module is inner
    assert wrapped[0] is inner[0]
    assert FSDP.fsdp_modules(nn.Sequential(wrapped)) == [wrapped]


def test_state_dicts_of_wrapped_modules_load_alone_and_inside_of_another():
    inner, outer = FSDP(model()), nn.Sequential(FSDP(model()))
    for m in (inner, outer):
        state = {k: v + 1 for k, v in m.state_dict().items()}
        m.load_state_dict(state)
        assert all((m.state_dict()[k] == v).all() for k, v in state.items())
        assert not any("_fsdp" in k for k in state)


def test_an_optimizers_state_by_names_and_by_numbers():
    m = FSDP(model())
    opt = core.optim.Adam(m.parameters())
    trained(m, opt)
    named = FSDP.optim_state_dict(m, opt)
    assert list(named["state"]) == [n for n, _ in m.named_parameters()]
    other = core.optim.Adam(m.parameters())
    other.load_state_dict(FSDP.optim_state_dict_to_load(m, other, named))
    assert other.state_dict()["state"][0]["step"] == opt.state_dict()["state"][0]["step"]
    numbered = FSDP.rekey_optim_state_dict(named, fsdp.OptimStateKeyType.PARAM_ID, m)
    assert list(numbered["state"]) == [0, 1, 2, 3]
    again = FSDP.rekey_optim_state_dict(numbered, fsdp.OptimStateKeyType.PARAM_NAME, m)
    assert list(again["state"]) == list(named["state"])


def test_settings_of_state_dicts_are_kept_for_a_block():
    m = FSDP(model())
    with FSDP.state_dict_type(m, fsdp.StateDictType.SHARDED_STATE_DICT):
        assert FSDP.get_state_dict_type(m).state_dict_type is fsdp.StateDictType.SHARDED_STATE_DICT
    assert FSDP.get_state_dict_type(m).state_dict_type is fsdp.StateDictType.FULL_STATE_DICT


@pytest.mark.parametrize(("wrap", "dtype"), [
    (lambda: FSDP(model(), mixed_precision=fsdp.MixedPrecision(param_dtype=core.float16)), core.float16),
    (lambda: fsdp.fully_shard(model(), mp_policy=fsdp.MixedPrecisionPolicy(param_dtype=core.bfloat16)), core.bfloat16),
])  # fmt: skip
def test_a_second_dtype_of_parameters_is_what_is_computed_in(wrap, dtype):
    m = wrap()
    assert m(core.ones(1, 2)).dtype is dtype
    assert {p.dtype for p in m.parameters()} == {core.float32}


def test_fully_shard_adds_its_methods():
    m = model()
    want = m(core.ones(1, 2))
    assert fsdp.fully_shard(m) is m
    assert isinstance(m, fsdp.FSDPModule)
    assert isinstance(m, nn.Sequential)
    m.set_requires_gradient_sync(False)
    m.unshard(async_op=True).wait()
    assert (m(core.ones(1, 2)) == want).all()
    with pytest.raises(RuntimeError, match="not divided"):
        m.set_gradient_divide_factor(2.0)


def test_a_divided_tensor_computes_and_carries_gradients():
    mesh = init_device_mesh("cpu", (1,))
    w = distribute_tensor(core.ones(2, 2, requires_grad=True), mesh, [Shard(-1)])
    y = (w * 3).sum()
    assert isinstance(y, DTensor)
    assert (w.placements, y.placements) == ((Shard(1),), (Replicate(),))
    assert type(y.full_tensor()) is core.Tensor
    y.backward()
    assert w.grad.tolist() == [[3.0, 3.0], [3.0, 3.0]]
    x = core.ones(2, requires_grad=True)
    DTensor.from_local(x, mesh, [Replicate()]).to_local().sum().backward()
    assert x.grad.tolist() == [1.0, 1.0]
    assert w.redistribute(placements=[Replicate()]).placements == (Replicate(),)
    doubled = local_map(lambda a: a * 2, [Replicate()], device_mesh=mesh)(w)
    assert doubled.full_tensor().tolist() == [[2.0, 2.0], [2.0, 2.0]]
    for wrong in ([Shard(2)], [Shard(0), Shard(0)]):
        with pytest.raises(ValueError, match="placement"):
            distribute_tensor(core.ones(2, 2), mesh, wrong)


def test_a_module_divided_by_a_plan_computes_as_it_is():
    m = model()
    want = m(core.ones(1, 2))
    plan = {"0": ColwiseParallel(), "2": RowwiseParallel(use_local_output=False)}
    got = parallelize_module(m, init_device_mesh("cpu", (1,)), plan)(core.ones(1, 2))
    assert isinstance(got, DTensor)
    assert (got.to_local() == want).all()


def test_a_checkpoint_in_a_folder(tmp_path):
    m = model()
    opt = core.optim.Adam(m.parameters())
    trained(m, opt)
    told = checkpoint.save({"model": m.state_dict(), "opt": opt, "epoch": 3}, checkpoint_id=tmp_path)
    assert told.state_dict_metadata["model.0.weight"].size == (3, 2)
    other = model()
    fresh = core.optim.Adam(other.parameters())
    trained(other, fresh)
    state = {"model": other.state_dict(), "opt": fresh, "epoch": 0}
    checkpoint.load(state, storage_reader=checkpoint.FileSystemReader(tmp_path))
    assert state["epoch"] == 3
    assert all((a == b).all() for a, b in zip(m.state_dict().values(), other.state_dict().values(), strict=True))
    checkpoint.dcp_to_torch_save(tmp_path, tmp_path / "one.pt")
    assert core.load(tmp_path / "one.pt", weights_only=False)["epoch"] == 3


def test_what_a_checkpoint_lacks_and_folders_of_pytorch_are_refused(tmp_path):
    checkpoint.save({"a": core.ones(2)}, checkpoint_id=tmp_path)
    with pytest.raises(RuntimeError, match="Missing key"):
        checkpoint.load({"b": core.ones(2)}, checkpoint_id=tmp_path)
    checkpoint.load({"b": core.ones(2)}, checkpoint_id=tmp_path,
                    planner=checkpoint.DefaultLoadPlanner(allow_partial_load=True))  # fmt: skip
    with pytest.raises(ValueError, match="Size mismatch"):
        checkpoint.load({"a": core.ones(3)}, checkpoint_id=tmp_path)
    with pytest.raises(RuntimeError, match="overwrite"):
        checkpoint.FileSystemWriter(tmp_path, overwrite=False).write({})
    (tmp_path / ".metadata").write_bytes(b"\x80\x02.")
    with pytest.raises(RuntimeError, match="PyTorch wrote"):
        checkpoint.load({"a": core.ones(2)}, checkpoint_id=tmp_path)


def test_optimizers_of_divided_states_are_the_optimizers():
    plain, first, second = model(), model(), model()
    averager = algorithms.averagers.PeriodicModelAverager(2)
    want = trained(plain, core.optim.SGD(plain.parameters(), lr=0.1))
    zero = ZeroRedundancyOptimizer(first.parameters(), core.optim.SGD, lr=0.1)
    local = PostLocalSGDOptimizer(core.optim.SGD(second.parameters(), lr=0.1), averager)
    assert trained(first, zero) == trained(second, local) == want
    assert averager.step == 2
    zero.load_state_dict(zero.state_dict())
    assert zero.param_groups[0]["lr"] == 0.1
