"""The course of a loop: what is a step, which numbers are found and what they are called, in core and in PyTorch."""

from __future__ import annotations

import linecache
import math
import os
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import core
import lab
from core.events import observe
from lab import adapters
from lab.recorder import loops
from lab.recorder.run_course import RunCourse
from lab.recorder.series import Series
from lab.session.recording import Recording
from widgets.run_curves import Curve, RunCurves

START = """
nn, F = library.nn, library.nn.functional
library.manual_seed(0)
x = library.randn(64, 4)
y = x.sum(1, keepdim=True)
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = library.optim.SGD(model.parameters(), 0.1)
def step():
    optimizer.zero_grad()
    loss = F.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    return loss
"""


@pytest.fixture(params=["core", "torch"])
def library(request: pytest.FixtureRequest) -> Iterator[Any]:
    found = pytest.importorskip(request.param)
    before = dict(vars(found.Tensor)), found.autograd.backward, core.Tensor.backward
    yield found
    # nothing of ours is left in either library
    assert before == (dict(vars(found.Tensor)), found.autograd.backward, core.Tensor.backward)
    assert not observe.followers


def follow(
    library: Any, text: str, file: str, change: Callable[[RunCourse], None] = lambda course: None
) -> tuple[RunCurves, RunCourse, dict[str, Any]]:
    """Run a program with a course alone, no recorder; its lines are those of a cell. Where it calls `course()`,
    something is changed in that."""
    whole = START + text
    linecache.cache[file] = len(whole), None, whole.splitlines(True), file
    space = {"library": library, "lab": lab, "math": math}
    first = START.count("\n")
    course = RunCourse({file: -first})
    space["course"] = lambda: change(course)
    ears = [course, *(adapters.followers(course) if library is not core else [])]
    for ear in ears:
        ear.start()
    try:
        exec(compile(whole, file, "exec"), space)
    finally:
        for ear in reversed(ears):
            ear.stop()
    assert course.error is None
    return course.plain(), course, space


def by_name(run: RunCurves) -> dict[str, Curve]:
    return {curve.name: curve for curve in run.curves}


def test_a_loss_that_is_read_after_another_has_gone_backward_is_no_second_curve(library: Any) -> None:
    text = """other = nn.Linear(4, 1)
for _ in range(8):
    errD = F.mse_loss(model(x), y)
    errD.backward()
    errG = (other(x) ** 2).mean()
    errG.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(errD.item(), errG.item())
"""
    run, _, _ = follow(library, text, "<two losses>")
    assert sorted(curve.name for curve in run.curves if curve.kind != "rate") == ["errD", "errG"]


def test_the_loss_and_what_is_read_beside_it(library: Any) -> None:
    text = """for epoch in range(4):
    for _ in range(5):
        loss = step()
        acc = ((model(x) - y).abs() < 0.5).float().mean().item()
        seen = float(loss.detach())
    with library.no_grad():
        val_loss = F.mse_loss(model(x[:32]), y[:32]).item()
    lab.log(best=min(val_loss, 1.0))
"""
    run, _, _ = follow(library, text, "<cell a>")
    found = by_name(run)
    assert (run.steps, run.unit) == (20, "step")
    found["loss"].line = None  # of `step`, above the cell
    assert {name: (c.kind, c.line, c.count) for name, c in found.items() if c.kind != "memory"} == {
        "loss": ("loss", None, 20),
        "acc": ("metric", 4, 20),
        "val_loss": ("validation", 7, 4),
        "best": ("metric", None, 4),
        "learning rate": ("rate", None, 1),
    }
    assert found["val_loss"].at == [5, 10, 15, 20]
    assert found["loss"].at == list(range(1, 21))
    assert found["loss"].values[-1] < found["loss"].values[0]


@pytest.mark.parametrize("steps", ["step()", "pass"], ids=["steps", "no optimizer"])
def test_short_steps_are_looked_at_now_and_then_but_rare_numbers_always(
    library: Any, steps: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RunCourse, "_look", lambda *_: None)
    text = f"""for k in range(80):
    {steps}
    often = float(library.tensor(k / 80))
    if k % 10 == 4:
        rare = library.tensor(k / 3).item()
    if k == 19:
        course()
"""
    run, _, _ = follow(library, text, f"<cell rare {steps}>", lambda course: setattr(course, "_stride", 8))
    found = by_name(run)
    assert found["rare"].count == 8
    if steps == "pass":  # nothing but the numbers tells that time goes on
        assert found["often"].count == 80
    else:
        assert (run.steps, found["loss"].count) == (80, 28)  # 20, then every eighth
        assert 28 <= found["often"].count <= 30


def test_a_follower_that_rests_is_told_of_no_pass_and_no_step_until_then() -> None:
    w = core.ones(2, requires_grad=True)
    optimizer = core.optim.SGD([w], 0.1)
    told: list[str] = []

    class Counts(observe.Follower):
        def passed(self, roots: Any) -> None:
            told.append("pass")

        def stepped(self, optimizer: Any) -> None:
            told.append("step")

    follower = Counts()
    observe.follow(follower)
    try:
        for k in range(10):
            if k == 2:
                observe.rest(follower, observe.tally.steps + 5)
                told.append("rests")
            (w * w).sum().backward()
            optimizer.step()
    finally:
        observe.unfollow(follower)
    assert told == ["pass", "step"] * 2 + ["rests"] + ["pass", "step"] * 3


def test_what_sampling_reads_of_each_step_is_no_number_of_the_programs(library: Any) -> None:
    text = START + "for _ in range(30):\n    step()\n"
    recording = Recording(sampled={"first": 4, "first_ns": 0})
    recording.start({"<cell sampled>": 0})
    exec(compile(text, "<cell sampled>", "exec"), {"library": library})
    recording.stop({}, text)
    assert recording.steps is not None
    assert recording.course is not None
    assert recording.steps.recorded < recording.steps.steps == 30
    assert [named.source for named in recording.course.named.values()] == ["loss"]


def test_accumulated_losses_are_one_point_a_step(library: Any) -> None:
    text = """for k in range(12):
    loss = F.mse_loss(model(x), y) / 4
    loss.backward()
    if k % 4 == 3:
        optimizer.step()
        optimizer.zero_grad()
"""
    run, _, _ = follow(library, text, "<cell b>")
    loss = by_name(run)["loss"]
    assert (run.steps, loss.count, loss.at) == (3, 12, [1, 2, 3])


def test_without_an_optimizer_passes_are_counted(library: Any) -> None:
    text = """w = library.ones(3, requires_grad=True)
for k in range(6):
    total = (w * w).sum()
    total.backward()
    with library.no_grad():
        w -= 0.1 * w.grad
        w.grad = None
"""
    run, _, _ = follow(library, text, "<cell c>")
    assert (run.steps, run.unit, by_name(run)["total"].at) == (6, "backward pass", [1, 2, 3, 4, 5, 6])


def test_two_optimizers_in_turn_are_one_step(library: Any) -> None:
    text = """critic = nn.Linear(4, 1)
other = library.optim.SGD(critic.parameters(), 0.01)
for k in range(16):
    loss_d = critic(x).square().mean()
    other.zero_grad()
    loss_d.backward()
    other.step()
    step()
"""
    run, _, _ = follow(library, text, "<cell d>")
    found = by_name(run)
    assert run.steps == 16
    assert (found["loss_d"].count, found["loss"].count) == (16, 16)


def test_a_loss_that_is_lost(library: Any) -> None:
    text = """for k in range(8):
    loss = F.mse_loss(model(x), y) * (math.nan if k == 5 else 1.0)
    loss.backward()
    optimizer.step()
"""
    run, _, _ = follow(library, text, "<cell e>")
    loss = by_name(run)["loss"]
    assert loss.lost == 6
    assert math.isnan(loss.values[-1])
    assert len(loss.finite()[0]) == 5


def test_layers_are_measured_and_named(library: Any) -> None:
    text = """import time
for k in range(40):
    step()
    time.sleep(0.02)
"""
    run, course, space = follow(library, text, "<cell f>")
    assert [row.name for row in run.layers] == ["model.0", "model.2"]
    assert run.layers_at == sorted(run.layers_at)
    for row in run.layers:
        assert len(row.norms) == len(row.ratios) == len(run.layers_at) > 0
        assert all(v is not None and v >= 0 for v in [*row.norms, *row.ratios])
    if course.layers.at[-1] == 40:
        norm = math.sqrt(sum(float(p.grad.square().sum()) for p in list(space["model"].parameters())[2:]))
        assert run.layers[1].norms[-1] == pytest.approx(norm, rel=1e-4)
    assert run.memory_bytes > 1e6


def test_a_norm_and_a_step_are_right(library: Any) -> None:
    """At a plain step of SGD the step is the rate times the gradient."""
    weight = library.nn.Parameter(library.ones(10, 10))
    optimizer = library.optim.SGD([weight], 0.5)
    course = RunCourse()
    course.due = True
    ears = [course, *(adapters.followers(course) if library is not core else [])]
    for ear in ears:
        ear.start()
    weight.grad = library.full((10, 10), 0.2)
    optimizer.step()
    for ear in reversed(ears):
        ear.stop()
    at, rows = course.layers.plain()
    assert at == [1]
    assert rows[0].norms == [pytest.approx(2.0)]
    assert rows[0].ratios == [pytest.approx(0.1)]


def test_it_is_deaf_to_other_threads_and_to_children(library: Any) -> None:
    text = """import threading, os
def elsewhere():
    w = library.ones(2, requires_grad=True)
    (w * w).sum().backward()
other = threading.Thread(target=elsewhere)
other.start()
other.join()
step()
"""
    run, course, _ = follow(library, text, "<cell g>")
    assert [c.name for c in run.curves if c.kind == "loss"] == ["loss"]
    if (pid := os.fork()) == 0:
        os._exit(int(course.alive or bool(observe.followers)))
    assert os.waitpid(pid, 0)[1] == 0


def test_an_error_of_its_own_ends_it_and_is_never_the_users(library: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Series, "add", lambda *_: 1 / 0)
    course = RunCourse()
    ears = [course, *(adapters.followers(course) if library is not core else [])]
    for ear in ears:
        ear.start()
    w = library.ones(2, requires_grad=True)
    (w * w).sum().backward()
    for ear in reversed(ears):
        ear.stop()
    assert w.grad is not None
    assert isinstance(course.error, ZeroDivisionError)
    assert "ZeroDivisionError" in course.plain().note


def test_a_long_run_stays_small() -> None:
    series = Series(100)
    for step in range(1, 100_001):
        series.add(step, float(step % 7))
    curve = series.curve("loss", "loss")
    assert len(curve.at) <= 100
    assert curve.count == 100_000
    assert min(curve.low) == 0
    assert max(curve.high) == 6
    assert curve.values[3] == pytest.approx(3.0, abs=0.01)


def test_numbers_that_are_named_must_be_numbers(library: Any) -> None:
    with pytest.raises(TypeError, match="loss is of 2 elements"):
        lab.log(loss=library.ones(2))
    with pytest.raises(TypeError, match="name is of type str"):
        lab.log(name="x")
    lab.log(a=1, b=library.tensor(2.0), c=library.tensor(3.0, requires_grad=True))


def test_lengths_of_loops() -> None:
    found: dict[str, Any] = {}
    data = core.utils.data.TensorDataset(core.zeros(70, 2))

    class Mine:
        def __len__(self) -> int:
            raise AssertionError("asked")

        def __getitem__(self, k: int) -> int:
            if k > 2:
                raise IndexError
            return k

    text = """
def run(n, loader, mine):
    for epoch in range(n):
        for k, batch in enumerate(loader):
            look("loader")
        for a, b in zip(batches, batches, strict=True):
            look("zip")
        for one in mine:
            look("mine")
for trial in tqdm(range(2)):
    run(3, loader, mine)
"""

    def look(name: str) -> None:
        import sys

        found.setdefault(name, loops.around(sys._getframe(1)))

    linecache.cache["<loops>"] = len(text), None, text.splitlines(True), "<loops>"
    space = {"look": look, "loader": core.utils.data.DataLoader(data, batch_size=16), "batches": [1, 2, 3, 4],
             "mine": Mine(), "tqdm": iter}  # fmt: skip
    exec(compile(text, "<loops>", "exec"), space)
    assert found["loader"] == [(2, 0), (3, 0), (5, 0)]
    assert found["zip"] == [(2, 0), (3, 0), (4, None)]
    assert found["mine"] == [(2, 0), (3, 0), (None, None)]


def test_nothing_is_heard_after_the_end() -> None:
    course = RunCourse()
    course.start()
    course.stop()
    w = core.ones(2, requires_grad=True)
    (w * w).sum().backward()
    assert not course
    assert not course.named
    assert threading.get_ident() == course.thread
