"""`lab.fit` against the loop written out, and what it does when things go wrong."""

from __future__ import annotations

import math
import traceback

import pytest

import core
import core.nn.functional as F
import lab
from core import nn
from core.utils.data import DataLoader, TensorDataset
from lab.training.batches import shapes


@pytest.fixture
def data():
    core.manual_seed(0)
    x = core.randn(70, 6)
    return TensorDataset(x, (x.sum(1) > 0).long())


def loader(data, **more):
    return DataLoader(data, batch_size=16, **{"shuffle": True, **more})


def make(*, dropout=0.0):
    core.manual_seed(1)
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Dropout(dropout), nn.Linear(8, 2))
    return model, core.optim.Adam(model.parameters(), 0.01)


def accuracy(output, target):
    return (output.argmax(1) == target).float().mean()


def fit(model, data, loss, optimizer, epochs=1, **more):
    return lab.fit(model, data, loss, optimizer, epochs, **{"show": False, **more})


def same(a, b):
    return all((p == q).all() for p, q in zip(a.parameters(), b.parameters(), strict=True))


# -- the loop ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("clip", "accumulate", "every"), [(None, 1, None), (0.1, 1, "step"), (0.5, 2, "epoch"), (None, 3, "step")]
)
def test_it_is_the_loop_written_out(data, clip, accumulate, every):
    def schedule(optimizer):
        return None if every is None else core.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)

    model, optimizer = make(dropout=0.3)
    scheduler, losses = schedule(optimizer), []
    for _ in range(3):
        model.train()
        batches = list(loader(data))
        for k, (x, y) in enumerate(batches):
            first = k - k % accumulate
            size = min(accumulate, len(batches) - first)
            if k == first:
                optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            (loss / size if size > 1 else loss).backward()
            losses.append(loss.item())
            if k == first + size - 1:
                if clip is not None:
                    nn.utils.clip_grad_norm_(model.parameters(), clip)
                optimizer.step()
                if every == "step":
                    scheduler.step()
        if every == "epoch":
            scheduler.step()

    other, optimizer = make(dropout=0.3)
    history = fit(other, loader(data), F.cross_entropy, optimizer, 3, clip=clip, accumulate=accumulate,
                  scheduler=schedule(optimizer), scheduler_every=every)  # fmt: skip
    assert history.losses == losses
    assert same(model, other)
    assert [e.steps for e in history.epochs] == [5, 5, 5]
    assert history.state == "done"
    assert "3 epochs, 15 steps" in repr(history)


def test_validation_and_metrics(data):
    model, optimizer = make(dropout=0.5)
    modes = []
    model.register_forward_hook(lambda m, i, o: modes.append((m.training, core.is_grad_enabled())))
    test = loader(data, shuffle=False)
    history = fit(model, loader(data), F.cross_entropy, optimizer, 4, validation=test, metrics=accuracy)
    assert modes == ([(True, True)] * 5 + [(False, False)] * 5) * 4
    model.eval()
    x, y = data.tensors
    assert history.validation[-1] == pytest.approx(F.cross_entropy(model(x), y).item(), rel=1e-5)
    assert history.metrics["validation accuracy"][-1] == pytest.approx(accuracy(model(x), y).item())
    assert len(history.metrics["accuracy"]) == 4
    assert history.epochs[0].loss == pytest.approx(
        sum(v * n for v, n in zip(history.losses[:5], [16] * 4 + [6], strict=True)) / 70
    )
    assert history.best.validation == min(history.validation)
    assert history.epochs[0].learning_rate == 0.01
    assert "validation accuracy" in history.table()


class Gathered:
    """A metric that gathers an epoch."""

    def reset(self):
        self.right = self.all = 0

    def update(self, output, target):
        self.right += int((output.argmax(1) == target).sum())
        self.all += len(target)

    def compute(self):
        return core.tensor(self.right / self.all)


def test_metrics_of_every_kind(data):
    model, optimizer = make()
    metrics = {"right": Gathered(), "error": lambda output, target: 1 - accuracy(output, target)}
    history = fit(model, loader(data), F.cross_entropy, optimizer, 2, metrics=metrics)
    for right, error in zip(*history.metrics.values(), strict=True):
        assert right + error == pytest.approx(1.0, abs=1e-6)
    assert list(fit(model, loader(data), F.cross_entropy, optimizer, metrics=[Gathered(), accuracy]).metrics) == [
        "gathered",
        "accuracy",
    ]
    with pytest.raises(ValueError, match="metrics='accuracy' is a name"):
        fit(model, loader(data), F.cross_entropy, optimizer, metrics="accuracy")
    with pytest.raises(ValueError, match="a metric without a name"):
        fit(model, loader(data), F.cross_entropy, optimizer, metrics=lambda a, b: 0.0)
    with pytest.raises(ValueError, match="the metric 'x' is a int"):
        fit(model, loader(data), F.cross_entropy, optimizer, metrics={"x": 3})


def test_metrics_of_core(data):
    model, optimizer = make()
    both = [core.metrics.Accuracy("multiclass", num_classes=2, average="micro"), accuracy]
    with pytest.raises(ValueError, match="two metrics are called 'accuracy'"):
        fit(model, loader(data), F.cross_entropy, optimizer, metrics=both)
    metrics = dict(zip(("theirs", "mine"), both, strict=True))
    history = fit(model, loader(data), F.cross_entropy, optimizer, 2, validation=loader(data), metrics=metrics)
    first, second = list(history.metrics.values())[:2]
    assert first == pytest.approx(second)
    with pytest.raises(ValueError, match=r"the metric 'confusion matrix' gave \(2, 2\) values; needed: one number"):
        fit(
            model,
            loader(data),
            F.cross_entropy,
            optimizer,
            metrics=core.metrics.ConfusionMatrix("multiclass", num_classes=2),
        )


def test_an_optimizer_that_asks_for_the_loss_again(data):
    model, _ = make()
    x, y = data.tensors
    optimizer = core.optim.LBFGS(model.parameters(), line_search_fn="strong_wolfe", max_iter=10)
    history = fit(model, [(x, y)], F.cross_entropy, optimizer, 5, metrics=accuracy)
    assert len(history.losses) == 5
    assert history.losses[-1] < 0.05 < history.losses[0]
    assert history.metrics["accuracy"][-1] == 1.0


def test_batches_of_every_kind(data):
    x, y = data.tensors
    auto = nn.Linear(6, 6)
    optimizer = core.optim.SGD(auto.parameters(), 0.01)
    assert fit(auto, [x[:8], x[8:16]], F.mse_loss, optimizer, 2).losses[0] > 0  # its own target
    assert len(fit(auto, [[x]], F.mse_loss, optimizer, 1).losses) == 1

    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(6, 2)

        def forward(self, a, b):
            return self.layer(a + b)

    class Own(Two):
        def forward(self, a, labels):
            return F.cross_entropy(self.layer(a), labels), None

    two, own = Two(), Own()
    assert fit(two, [(x, x, y)], F.cross_entropy, core.optim.SGD(two.parameters(), 0.01)).epochs[0].steps == 1
    given = {"a": x, "b": x}
    history = fit(
        two,
        [given],
        lambda output, batch: output.pow(2).mean() + batch["a"].mean(),
        core.optim.SGD(two.parameters(), 0.1),
    )
    assert len(history.losses) == 1
    optimizer = core.optim.SGD(own.parameters(), 0.01)
    assert fit(own, [{"a": x, "labels": y}, {"a": x[:3], "labels": y[:3]}], None, optimizer).epochs[0].steps == 2
    assert fit(own, [(x, y)], None, optimizer).losses[0] == pytest.approx(
        F.cross_entropy(own.layer(x), y).item(), rel=0.1
    )


def test_schedulers_that_ask_for_more(data):
    model, optimizer = make()
    schedule = core.optim.lr_scheduler
    one = schedule.OneCycleLR(optimizer, 0.1, total_steps=10)
    fit(model, loader(data), F.cross_entropy, optimizer, 2, scheduler=one)
    assert one.last_epoch == 10  # a step a batch, unasked
    model, optimizer = make()
    plateau = schedule.ReduceLROnPlateau(optimizer, patience=0, threshold=1e9)
    fit(model, loader(data), F.cross_entropy, optimizer, 3, scheduler=plateau)
    assert optimizer.param_groups[0]["lr"] < 0.01


def test_unknown_lengths_and_data_used_up(data):
    model, optimizer = make()
    batches = list(loader(data))

    class Stream:
        def __iter__(self):
            return iter(batches)

    history = fit(model, Stream(), F.cross_entropy, optimizer, 2, accumulate=2)
    assert [e.steps for e in history.epochs] == [5, 5]
    with pytest.raises(
        ValueError, match=r"no batch in epoch 2.*used up by the first epoch[\s\S]*a DataLoader or a list"
    ):
        fit(model, iter(batches), F.cross_entropy, optimizer, 2)
    with pytest.raises(ValueError, match="no batch in epoch 1"):
        fit(model, [], F.cross_entropy, optimizer)


def test_modes_are_left_as_they_were(data):
    model, optimizer = make()
    model.eval()
    fit(model, loader(data), F.cross_entropy, optimizer)
    assert not model.training


@pytest.mark.parametrize("amp", [True, "bfloat16"])
def test_mixed_precision(data, amp):
    model, optimizer = make()
    kinds = []
    model[0].register_forward_hook(lambda m, i, o: kinds.append(o.dtype))
    history = fit(model, loader(data), F.cross_entropy, optimizer, 3, amp=amp, clip=1.0)
    assert set(kinds) == {core.bfloat16}
    assert model[0].weight.dtype is core.float32
    assert history.loss[-1] < history.loss[0]
    with pytest.raises(ValueError, match="amp="):
        fit(model, loader(data), F.cross_entropy, optimizer, amp="float64")


def test_on_the_other_device(data):
    model, optimizer = make()
    model = model.to("cuda")
    optimizer = core.optim.SGD(model.parameters(), 0.05)
    test = loader(data, shuffle=False)
    history = fit(model, test, F.cross_entropy, optimizer, 2, validation=list(test)[:1], metrics=accuracy)
    other, _ = make()
    same_on_cpu = fit(other, test, F.cross_entropy, core.optim.SGD(other.parameters(), 0.05), 2)
    assert history.losses == pytest.approx(same_on_cpu.losses, rel=1e-4)
    assert len(history.losses) == 10


# -- how it ends -------------------------------------------------------------------------------------------------------


def test_a_loss_that_is_not_finite_ends_it_before_the_weights_are_spoilt(data):
    def loss(output, target):
        seen.append([p.clone() for p in model.parameters()])
        return F.cross_entropy(output, target) * (math.inf if len(seen) == 7 else 1)

    seen = []
    model, optimizer = make()
    history = fit(model, loader(data), loss, optimizer, 5)
    assert history.state == "nan"
    assert history.stop_step == 6
    assert len(history.losses) == 7
    assert "the loss was inf in epoch 2, step 2 (7 in all); the weights are those from before it" in history.message
    assert all((p == q).all() for p, q in zip(model.parameters(), seen[-1], strict=True))
    seen = []
    assert len(fit(model, loader(data), loss, optimizer, 2, stop_on_nan=False).losses) == 10


def test_ctrl_c_gives_the_history_so_far(data, capsys):
    class Impatient:
        def __iter__(self):
            yield from list(loader(data))[:3]
            raise KeyboardInterrupt

    model, optimizer = make()
    history = fit(model, Impatient(), F.cross_entropy, optimizer, 9, show="lines")
    assert history.state == "interrupted"
    assert len(history.losses) == 3
    said = capsys.readouterr().out
    assert "■ Interrupted · Interrupted in epoch 1, step 4" in said
    assert "0 of 9 epochs, 3 steps" in said
    assert "interrupted in epoch 1, step 4" in repr(history)


def test_an_error_says_where_and_keeps_its_traceback_short(data):
    def loss(output, target):
        raise LookupError("no such thing")

    model, optimizer = make()
    with pytest.raises(LookupError, match="no such thing") as caught:
        fit(model, loader(data), loss, optimizer)
    assert caught.value.__notes__ == ["lab.fit: in epoch 1, step 1, batch of float32 (16, 6), int64 (16,)"]
    names = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert names[-2:] == ["fit", "loss"]  # ours once, then the user's
    with pytest.raises(ValueError, match=r"the loss is one number for a batch[\s\S]*a tensor of \(16,\)"):
        fit(model, loader(data), lambda o, t: F.cross_entropy(o, t, reduction="none"), optimizer)


def test_the_callback_may_stop_it(data):
    model, optimizer = make()
    history = fit(model, loader(data), F.cross_entropy, optimizer, 9, callback=lambda h: len(h.epochs) == 2)
    assert (len(history.epochs), history.state) == (2, "stopped")


def test_arguments_that_cannot_be_meant(data):
    model, optimizer = make()
    other, _ = make()
    for change, phrase in (
        ({"epochs": 0}, "epochs=0; needed: an integer of at least 1"),
        ({"accumulate": 0}, "accumulate=0"),
        ({"clip": -1}, "a positive norm"),
        ({"show": "loud"}, "show='loud' is not known"),
    ):
        with pytest.raises(ValueError, match=phrase):
            fit(model, loader(data), F.cross_entropy, optimizer, **change)
    with pytest.raises(ValueError, match="holds none of the model's parameters"):
        fit(other, loader(data), F.cross_entropy, optimizer)
    with pytest.raises(ValueError, match="needed: a module, an optimizer"):
        fit(model, loader(data), optimizer, F.cross_entropy)
    with pytest.raises(ValueError, match="the validation data gave no batch"):
        fit(model, loader(data), F.cross_entropy, optimizer, validation=[])


def test_shapes_in_words():
    assert shapes({"a": core.zeros(2, 3), "b": "x"}) == "a: float32 (2, 3), b: str of 1"


# -- checkpoints -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["run.safetensors", "run.pt"])
def test_a_resumed_run_is_the_run_without_a_break(data, tmp_path, name):
    def run(epochs, path):
        model, optimizer = make(dropout=0.3)
        scheduler = core.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
        own = core.Generator().manual_seed(5)
        history = fit(model, loader(data, generator=own), F.cross_entropy, optimizer, epochs, scheduler=scheduler,
                      validation=loader(data), checkpoint=path)  # fmt: skip
        return model, history

    whole, history = run(6, None)
    run(2, tmp_path / name)
    core.manual_seed(99)  # another process would stand elsewhere
    run(4, tmp_path / name)
    resumed, again = run(6, tmp_path / name)
    assert again.losses == history.losses
    assert again.validation == history.validation
    assert same(whole, resumed)
    assert [p.name for p in tmp_path.iterdir()] == [name]
    assert len(run(6, tmp_path / name)[1].losses) == 30  # all epochs are there: nothing to do


def test_checkpoints_of_something_else(data, tmp_path):
    path = tmp_path / "run.pt"
    model, optimizer = make()
    fit(model, loader(data), F.cross_entropy, optimizer, checkpoint=path)
    other = nn.Linear(6, 2)
    with pytest.raises(ValueError, match=r"run.pt is of another model[\s\S]*delete this one"):
        fit(other, loader(data), F.cross_entropy, core.optim.Adam(other.parameters()), 2, checkpoint=path)
    scheduler = core.optim.lr_scheduler.StepLR(optimizer, 2)
    with pytest.raises(ValueError, match="has no scheduler, and this run has one"):
        fit(model, loader(data), F.cross_entropy, optimizer, 2, checkpoint=path, scheduler=scheduler)
    core.save({"x": 1}, path)
    with pytest.raises(ValueError, match=r"is no checkpoint of lab\.fit"):
        fit(model, loader(data), F.cross_entropy, optimizer, 2, checkpoint=path)


# -- beside the recorder -----------------------------------------------------------------------------------------------


def test_a_recording_hears_the_users_line_and_no_cut(data):
    model, optimizer = make()
    batches = loader(data)
    with lab.recording() as rec:
        lab.fit(
            model, batches, F.cross_entropy, optimizer, 2, validation=batches, metrics=accuracy, show="off", clip=1.0
        )
    assert [f.kind for f in rec.record.findings if f.severity != "note" or f.reads] == []
    named = {op.op for op in rec.record.ops}
    assert {"linear", "relu", "cross_entropy"} <= named
    files = {op.file for op in rec.record.ops}
    assert not any("training" in file for file in files)
    assert {g.name for g in rec.record.gradients} == {
        "model.0.weight",
        "model.0.bias",
        "model.3.weight",
        "model.3.bias",
    }
    assert all(g.norm is not None for g in rec.record.gradients)
