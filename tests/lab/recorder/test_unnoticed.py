"""What a cell does is the same under recording: nothing of the recorder's is seen, sent along or raised in it."""

from __future__ import annotations

import copy
import os
import pickle
import threading
from typing import Any

import numpy as np
import pytest

import core
import lab
from core import nn


def test_tensors_made_while_recording_are_pickled_and_copied_as_any_others() -> None:
    w = nn.Parameter(core.ones(2))
    with lab.recording():
        y = (w * 2).detach()
        back = core.tensor(y.numpy())
        doubled = back * 2
        y.sum().item()
        kept = [y, back, doubled, w]
        inside = pickle.dumps(kept), copy.deepcopy(kept)
    for found in (pickle.loads(inside[0]), inside[1], pickle.loads(pickle.dumps(kept)), [copy.copy(t) for t in kept]):
        assert [t.tolist() for t in found] == [t.tolist() for t in kept]
        assert [t._note for t in found] == [None] * 4
    assert [vars(t) for t in kept] == [{}] * 4 or core.native.module is None


def test_what_the_user_writes_on_a_tensor_goes_along() -> None:
    with lab.recording():
        y = core.ones(2) * 2
        y.label = "mine"
        assert vars(pickle.loads(pickle.dumps(y))).get("label") == vars(copy.deepcopy(y)).get("label") == "mine"


def test_arrays_look_and_travel_as_plain_ones() -> None:
    plain = np.array([1.0, 2.0], np.float32)
    with lab.recording():
        a = core.tensor([1.0, 2.0]).numpy()
        shown = repr(a), str(a), f"{a}", np.array_repr(a), np.array2string(a), str(type(a)), repr(np.tanh(a) * 0)
        sent, copied = pickle.loads(pickle.dumps(a)), copy.deepcopy(a)
    assert shown == (repr(plain), str(plain), f"{plain}", np.array_repr(plain), np.array2string(plain),
                     str(np.ndarray), repr(plain * 0))  # fmt: skip
    assert type(sent) is type(copied) is np.ndarray
    assert pickle.dumps(a) == pickle.dumps(plain)


def train(model: Any, steps: int, errors: list[BaseException]) -> None:
    try:
        optimizer = core.optim.SGD(model.parameters(), lr=1e-3)
        x = core.ones(4, 8)
        for _ in range(steps):
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()
    except BaseException as error:
        errors.append(error)


def test_threads_that_train_models_of_their_own_are_not_heard_and_disturb_nothing() -> None:
    errors: list[BaseException] = []
    models = [nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2)) for _ in range(5)]
    with lab.recording() as rec:
        others = [threading.Thread(target=train, args=(m, 30, errors)) for m in models[1:]]
        for t in others:
            t.start()
        train(models[0], 30, errors)
        for t in others:
            t.join()
    assert errors == []
    assert rec.error is None
    assert {op.count for op in rec.record.ops if op.op == "relu"} == {30}
    assert rec.record.environment["other threads"].endswith("ops, which are not shown")


def test_threads_that_train_one_model_never_break_the_recorder() -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2))
    errors: list[BaseException] = []
    with lab.recording() as rec:
        others = [threading.Thread(target=train, args=(model, 20, errors)) for _ in range(7)]
        for t in others:
            t.start()
        train(model, 20, [])
        for t in others:
            t.join()
    assert rec.error is None


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_child_made_while_recording_is_silent() -> None:
    with lab.recording() as rec:
        core.ones(2).exp()
        child = os.fork()
        if not child:
            core.ones(2).tanh()
            os._exit(len(core.events.observe.observers))
        assert os.waitpid(child, 0)[1] == 0
    assert [op.op for op in rec.record.ops] == ["exp"]


class Interrupting(nn.Module):
    """Ctrl-C comes while the recorder is at work."""

    def forward(self, x: Any) -> Any:
        return x.exp()


@pytest.mark.parametrize("at", ["_op", "_enter", "_backward", "_gradient", "_span", "_before_update", "_after_update"])
def test_an_interrupt_inside_the_recorder_comes_once_and_the_rest_is_recorded(
    at: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = nn.Sequential(nn.Linear(4, 4), Interrupting())
    optimizer = core.optim.SGD(model.parameters(), lr=0.1)

    def step() -> None:
        optimizer.zero_grad()
        model(core.ones(2, 4)).sum().backward()
        optimizer.step()

    came = 0
    with lab.recording() as rec:
        step()
        with monkeypatch.context() as patch:
            inner, left = getattr(lab.recorder.observer.Recorder, at), [1]

            def interrupted(self: Any, *args: Any) -> None:
                if left:
                    left.pop()
                    raise KeyboardInterrupt
                inner(self, *args)

            patch.setattr(lab.recorder.observer.Recorder, at, interrupted)
            try:
                step()
            except KeyboardInterrupt:
                came += 1
            core.ones(3).tanh()
            step()
    assert came == 1
    assert rec.error is None
    tanh = next(op for op in rec.record.ops if op.op == "tanh")
    assert tanh.module == ""


def test_an_interrupt_on_leaving_a_module_leaves_it(monkeypatch: pytest.MonkeyPatch) -> None:
    left = [1]
    inner = lab.recorder.op_to_row.Folder.leave

    def interrupted(self: Any, module: Any) -> None:
        if left:
            left.pop()
            raise KeyboardInterrupt
        inner(self, module)

    monkeypatch.setattr(lab.recorder.op_to_row.Folder, "leave", interrupted)
    with lab.recording() as rec:
        with pytest.raises(KeyboardInterrupt):
            nn.Linear(2, 2)(core.ones(2))
        core.ones(3).tanh()
    assert next(op for op in rec.record.ops if op.op == "tanh").module == ""


@pytest.mark.parametrize("where", ["start", "stop", "settle", "build"])
def test_an_error_at_the_ends_of_a_recording_is_a_line_of_its_record(
    where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*args: Any, **kwargs: Any) -> None:
        raise ZeroDivisionError("its own")

    target = {"start": "Sampler", "settle": "settle", "build": "build", "stop": "_collect"}[where]
    monkeypatch.setattr(lab.session.recording, target, broken)
    with lab.recording() as rec:
        y = core.ones(2).exp()
    assert y.shape == (2,)
    assert core.events.observe.observers == ()
    assert rec.record.findings[0].kind == "recorder"
    assert "ZeroDivisionError: its own" in str(rec)


def test_an_exception_that_cannot_say_itself_is_the_users_own() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError("mute")

    with pytest.raises(Mute), lab.recording():
        raise Mute
