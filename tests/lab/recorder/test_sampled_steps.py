"""Recordings that stay on: what is recorded of many steps, what is seen between, and what the card says of it."""

from __future__ import annotations

import ast
import linecache
from itertools import count
from typing import Any

import numpy as np
import pytest

import core
from core.events import observe
from lab.recorder.cell_trace import Row, Trace
from lab.recorder.sampled_steps import SampledSteps
from lab.recorder.unrecorded import Loop
from lab.session.recording import Recording, error_row
from widgets.record import Record

from ..diagnose.planted import CELLS

SOON = {"first_ns": 0, "share": 0.05}
WHOLE: dict[str, dict[str, Any]] = {
    # sixteen batches are evaluated with history and put together: heard where an evaluation is recorded for a time
    "predictions of a comprehension": {"first_ns": 50_000_000},
    # without the recorder it takes less than the tenth of a second from which slow code is told of
    "one sample in each step": {"first": 1000},
    # three classes follow one another within 32 batches: of a longer loop, steps from later parts tell it
    "batches of one class": {"first": 1000},
    # of steps as short as these the rate is read at one of sixteen, and the teeth of a saw of ten are not seen
    "a warm-up in each epoch": {"first": 1000},
    # beside steps that are not recorded its line is one that takes most of the time, and not an idiom
    "a mean for each group": {"first": 1000},
    "a loss that gets batches of one class": {"first": 1000},
    # the rates of steps that are not recorded are not read: of forty steps too few may be left
    "a warm-up longer than the training": {"first": 1000},
    # which term outweighs the other is read at the end of 200 steps that take a millisecond each
    "tunes told by a sum over the batch": {"first": 1000},
}
_number = count(1)
HEAD = """\
model = nn.Sequential(nn.Linear(16, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for i in range(300):
"""
BODY = """\
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), labels)
    loss.backward()
    optimizer.step()
"""
LATE = {
    "gradients are not cleared from step 100 on": (
        HEAD + BODY.replace("optimizer.zero_grad()", "if i < 100: optimizer.zero_grad()"),
        ("zero-grad", 6),
    ),
    "history is kept from step 100 on": (
        HEAD.replace("for", "kept = []\nfor") + BODY + "    if i > 100: kept.append(loss)\n",
        ("memory", 9),
    ),
    "one batch has NaN": (
        HEAD + "    z = x.clone()\n    if i == 251: z[3, 2] = float('nan')\n" + BODY.replace("(x)", "(z)"),
        ("nan", 5),
    ),
    "the first NaN comes of no data": (
        HEAD + BODY.replace("labels)", "labels) * (1 if i != 251 else (x.sum() * 0).log() * 0)"),
        ("nan", 6),
    ),
    "evaluation mode from step 100 on": (HEAD + "    if i == 100: model.eval()\n" + BODY, ("mode", 6)),
}


@pytest.fixture(params=["core", "torch"])
def lib(request: pytest.FixtureRequest) -> Any:
    library = core if request.param == "core" else pytest.importorskip("torch")
    library.manual_seed(0)
    return library


def steps_of(recording: Recording) -> SampledSteps:
    return recording.steps


def sampled(cell: str, lib: Any, space: dict[str, Any] | None = None, **options: Any) -> tuple[Record, Recording]:
    """Run a cell whose steps are sampled; give its record and the recording."""
    rng = np.random.default_rng(0)
    space = {} if space is None else space
    space |= {"torch": lib, "core": lib, "nn": lib.nn, "F": lib.nn.functional, "np": np}
    space["x"] = lib.tensor(rng.standard_normal((64, 16)).astype(np.float32))
    space["labels"] = lib.tensor(rng.integers(0, 4, 64))
    space["y"] = space["x"][:, 0] * 0.5
    text, name = cell.lstrip("\n"), f"<sampled {next(_number)}>"
    linecache.cache[name] = len(text), None, text.splitlines(True), name
    recording, error = Recording(sampled={**SOON, **options}), None
    recording.start({name: 0})
    steps = recording.steps
    try:
        for statement in ast.parse(text).body:  # as IPython runs them
            if steps is not None:
                steps.statement()
            exec(compile(ast.Module([statement], []), name, "exec"), space)
    except Exception as e:
        error = e
    record = recording.stop(space, text, error_row(error, {name: 0}), error)
    assert recording.error is None, recording.error
    return record, recording


@pytest.mark.parametrize("name", LATE)
def test_what_goes_wrong_late_is_found(name: str, lib: Any) -> None:
    cell, expected = LATE[name]
    record, recording = sampled(cell, lib)
    steps = steps_of(recording)
    assert steps.recorded < steps.steps == 300
    first = record.findings[0]
    assert (first.kind, first.line) == expected, first


def test_a_rate_that_leaps_has_steps_recorded(lib: Any) -> None:
    _, recording = sampled(HEAD + "    if i == 200: optimizer.param_groups[0]['lr'] = 1e6\n" + BODY, lib)
    assert "rate" in [what for what, _ in steps_of(recording).noticed]


def test_a_healthy_loop_has_no_finding_and_says_what_was_recorded(lib: Any) -> None:
    record, recording = sampled(HEAD + BODY, lib)
    steps = steps_of(recording)
    assert not steps.noticed
    assert 8 <= steps.recorded < 300
    assert not [f for f in record.findings if f.severity != "note" or f.reads], record.findings
    assert record.checked.startswith(f"{steps.recorded} of 300 steps were recorded")
    runs = {op.op: op.count for op in record.ops if not op.flags}
    assert runs["relu"] == runs["batch_norm"] == 300
    assert record.ops_ms + record.recording_ms < 1.05 * record.wall_ms


def test_ops_of_steps_that_were_not_recorded_take_no_longer_than_those_steps() -> None:
    """A small op that is heard takes longer than one that is not, and so many of them took longer than the cell."""
    trace, loop = Trace(), Loop()
    row = Row(object(), 0, "mul", (), None, 0, ())
    trace.rows.append(row)
    trace.spans[()] = [0, 0]
    for _ in range(4):
        loop.begin(trace)
        row.count, row.forward_ns = row.count + 1, row.forward_ns + 600
        trace.backward_ns += 300
        trace.update_ns += 100
        trace.spans[()] = [trace.spans[()][0] + 1, trace.spans[()][1] + 300]
        loop.end(trace)
    loop.unrecorded, loop.unrecorded_ns = 16, 8000
    loop.stand_for_all(trace)
    assert row.runs == 20
    assert (row.forward_ns, trace.backward_ns, trace.update_ns) == (2400 + 4800, 1200 + 2400, 400 + 800)
    assert trace.spans[()] == [20, 1200 + 2400]


def test_all_steps_are_recorded_where_that_takes_no_more_than_its_share(lib: Any) -> None:
    record, recording = sampled(HEAD + BODY, lib, share=1e9)
    assert steps_of(recording).recorded == 300
    assert record.checked == ""


def test_a_few_steps_are_all_recorded(lib: Any) -> None:
    record, recording = sampled(HEAD.replace("300", "8") + BODY, lib)
    assert steps_of(recording).recorded == steps_of(recording).steps == 8
    assert record.checked == ""


def test_steps_by_hand_end_where_backward_does(lib: Any) -> None:
    cell = """
w = torch.zeros(16, 4, requires_grad=True)
for i in range(200):
    loss = F.cross_entropy(x @ w, labels)
    loss.backward()
    with torch.no_grad():
        w -= 0.1 * w.grad
        w.grad = None
"""
    record, recording = sampled(cell, lib)
    assert steps_of(recording).recorded < steps_of(recording).steps == 200
    assert not [f for f in record.findings if f.severity != "note" or f.reads], record.findings


def test_an_evaluation_between_unrecorded_steps_is_recorded(lib: Any) -> None:
    cell = (
        HEAD
        + BODY
        + """
    if i % 100 == 99:
        model.eval()
        for k in range(40):
            with torch.no_grad():
                right = model(x).argmax(1) == labels
        model.train()
"""
    )
    record, recording = sampled(cell, lib, share=1e-4)
    steps = steps_of(recording)
    assert steps.recorded < 30
    assert [op.count for op in record.ops if op.op == "argmax"] == [2 * steps.first]
    assert not [f for f in record.findings if f.severity != "note" or f.reads], record.findings


def test_another_statement_is_recorded_from_its_beginning() -> None:
    space: dict[str, Any] = {}
    record, _ = sampled(HEAD + BODY + "score = x.std()\n", core, space, share=1e-4)
    assert [op.count for op in record.ops if op.op == "std"] == [1]


def test_nothing_is_left_behind(lib: Any) -> None:
    before = [observe.observers, core.Tensor.backward, core.nn.Module.train, lib.nn.Module.train, lib.autograd.backward]
    sampled(HEAD + BODY, lib)
    after = [observe.observers, core.Tensor.backward, core.nn.Module.train, lib.nn.Module.train, lib.autograd.backward]
    assert all(a is b or a == b for a, b in zip(after, before, strict=True))
    assert not core.optim.optimizer._every_post_hook


def test_modes_of_the_users_stay_in_order() -> None:
    torch = pytest.importorskip("torch")
    space: dict[str, Any] = {}
    cell = """
from torch.overrides import TorchFunctionMode
class Mine(TorchFunctionMode):
    ran = 0
    def __torch_function__(self, function, types, args=(), kwargs=None):
        Mine.ran += 1
        return function(*args, **(kwargs or {}))
model = nn.Linear(16, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
sizes = []
for i in range(60):
    with Mine() as mine:
        for _ in range(7):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), labels)
            loss.backward()
            optimizer.step()
        assert torch.overrides._get_current_function_mode() is mine
    sizes.append(torch._C._len_torch_function_stack())
"""
    record, recording = sampled(cell, torch, space)
    assert record.error is None, record.error
    assert set(space["sizes"]) <= {0, 1}
    assert torch._C._len_torch_function_stack() == 0
    assert 8 < steps_of(recording).recorded < steps_of(recording).steps == 420


@pytest.mark.parametrize("name", CELLS)
def test_planted_mistakes_are_found_first(name: str) -> None:
    planted = CELLS[name]
    for again in (True, True, False):  # what a clock tells is another thing on a busy machine
        core.manual_seed(0)
        record, _ = sampled(planted.text, core, **WHOLE.get(name, {}))
        if record.findings or planted.kind != "slow" or not again:
            break
    if not record.findings and planted.kind == "slow":
        record, _ = sampled(planted.text, core, first=10**9)
        if not record.findings:
            pytest.skip("too slow a machine for a saving: a whole recording finds none either")
    assert record.findings, "nothing found"
    first = record.findings[0]
    assert (first.kind, first.line) in [(planted.kind, line) for line in planted.lines], first
