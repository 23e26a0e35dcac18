"""Requests that come together: which share a run, what each gets, and what a bad one does to its neighbours."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

import core
from lab.serving import Served, app
from lab.serving.batching import Batcher

from .conftest import LIMITS, Client, good, tensor


def together(application: Any, requests: list[tuple[str, Any]]) -> tuple[list[Any], str]:
    """The answers to requests sent at once, and the metrics after them."""

    async def run() -> tuple[list[Any], str]:
        async with application.router.lifespan_context(application):
            client = Client(application)
            asked = [client("POST", f"/v2/models/{m}/infer", json=body) for m, body in requests]
            answers = await asyncio.gather(*asked)
            return answers, (await client("GET", "/metrics")).text

    return asyncio.run(run())


def count(metrics: str, name: str) -> float:
    (line,) = [line for line in metrics.splitlines() if line.startswith(name + " ")]
    return float(line.rpartition(" ")[2])


def test_requests_share_runs_and_each_gets_its_own_rows(models):
    application = app(models, batch=16)
    rng = np.random.default_rng(0)
    xs = [rng.standard_normal((1 + k % 3, 4)).astype(np.float32) for k in range(40)]
    bodies = [{"id": str(k), "inputs": [tensor("input", "FP32", list(x.shape), x.tolist())]} for k, x in enumerate(xs)]
    answers, metrics = together(application, [("mlp", body) for body in bodies])
    for k, (x, answer) in enumerate(zip(xs, answers, strict=True)):
        assert answer.json()["id"] == str(k)
        wanted = models["mlp"](core.from_numpy(x)).numpy()
        found = np.float32(answer.json()["outputs"][0]["data"])
        np.testing.assert_allclose(found, wanted.ravel(), rtol=1e-5, atol=1e-6)
    runs = count(metrics, 'gradlab_batch_rows_count{model="mlp"}')
    assert 5 <= runs < 20  # of 40 requests with 79 rows, 16 rows a run at most
    assert count(metrics, 'gradlab_batch_rows_sum{model="mlp"}') == sum(map(len, xs))
    assert count(metrics, 'gradlab_batch_rows_bucket{model="mlp",le="16"}') == runs


def test_batches_of_one(models):
    _, metrics = together(app(models, batch=1), [("mlp", good())] * 7)
    assert count(metrics, 'gradlab_batch_rows_count{model="mlp"}') == 7


def test_a_request_larger_than_a_batch_runs_alone(models):
    answers, _ = together(app(models, batch=2), [("mlp", good(5)), ("mlp", good(1))])
    assert [a.json()["outputs"][0]["shape"] for a in answers] == [[5, 3], [1, 3]]


def table_body(tokens: list[int]) -> Any:
    return {"inputs": [tensor("tokens", "INT64", [1, len(tokens)], tokens), tensor("scale", "FP32", [1, 1], [1])]}


def test_other_sizes_run_apart(models):
    requests = [("table", table_body([1] * n)) for n in (2, 3, 2, 3, 2)]
    answers, metrics = together(app(models), requests)
    assert all(a.status_code == 200 for a in answers)
    assert 2 <= count(metrics, 'gradlab_batch_rows_count{model="table"}') <= 4


def test_a_bad_request_does_not_spoil_those_it_came_with(models):
    requests = [("table", table_body([k, 1])) for k in (1, 99, 2, 3)]
    answers, metrics = together(app(models), requests)
    assert [a.status_code for a in answers] == [200, 400, 200, 200]
    assert "IndexError" in answers[1].json()["error"]
    assert 'gradlab_errors_total{model="table",reason="data"} 1' in metrics


def test_a_full_queue_says_so(models):
    application = app(models, limits=LIMITS, batch=1, wait_ms=0)
    answers, metrics = together(application, [("mlp", good())] * 60)
    codes = [a.status_code for a in answers]
    assert set(codes) == {200, 429}
    refused = next(a for a in answers if a.status_code == 429)
    assert "8 requests wait for mlp" in refused.json()["error"]
    assert refused.headers["retry-after"] == "1"
    assert f'gradlab_errors_total{{model="mlp",reason="queue full"}} {codes.count(429)}' in metrics


def test_an_unforeseen_error_is_told_and_the_next_request_runs(models, monkeypatch, caplog):
    application = app(models)
    served = application.state.models["mlp"]
    runs = iter([MemoryError("no room"), None])
    was = Served.run

    def run(self: Served, arrays: Any) -> Any:
        error = next(runs) if self is served else None
        if error is not None:
            raise error
        return was(self, arrays)

    monkeypatch.setattr(Served, "run", run)
    answers, _ = together(application, [("mlp", good())])
    assert answers[0].status_code == 500
    assert answers[0].json()["error"] == "MemoryError: no room"
    assert "lab serve: mlp failed" in caplog.text
    answers, _ = together(application, [("mlp", good())])
    assert answers[0].status_code == 200


def exported(function: Any, *args: Any, **dynamic: Any) -> Served:
    return Served("f", core.export(function, args, dynamic=dynamic, name="f"))


def test_rows_that_see_one_another_are_not_stacked():
    x = core.randn(4, 3)
    along = {"x": {0: "n"}}
    assert exported(lambda x: x.exp(), x, **along).stacked == "n"
    assert exported(lambda x: x.softmax(1), x, **along).stacked == "n"
    for function in (lambda x: x.softmax(0), lambda x: x - x.mean(0), lambda x: x.cumsum(0), lambda x: x.flip(0)):
        served = exported(function, x, **along)
        assert served.stacked is None
        assert "depend on one another" in served.why
    assert "first size alone" in exported(lambda x: x.sum(), x, **along).why
    assert "first size alone" in exported(lambda x: x.T, x, **along).why
    assert "first size alone" in exported(lambda x: x.reshape(-1), x, **along).why
    assert "first size alone" in exported(lambda x, y: x + y, x, core.ones(3), **along).why
    assert "first size alone" in exported(lambda x: x + 1, x, x={1: "n"}).why
    assert "no size of the program is named" in exported(lambda x: x + 1, x).why


def test_a_condition_on_all_rows_is_not_stacked():
    def f(x: Any) -> Any:
        if x.sum() > -100.0:
            y = x * 2
        else:
            y = x * 3
        return y

    served = exported(core.script(f), core.randn(4, 3), x={0: "n"})
    assert served.stacked is None
    assert "a condition or a loop" in served.why


def test_indices_and_other_sizes_are_tried_at_what_fits():
    places = core.randn(16, 5)
    served = exported(lambda x: places[: x.shape[1]] + x[:, :, None], core.ones(3, 6), x={0: "batch", 1: "time"})
    assert served.stacked == "batch"


@pytest.mark.parametrize("wait_ms", [0.0, 50.0])
def test_one_client_alone_does_not_wait(models, wait_ms):
    application = app(models, wait_ms=wait_ms)

    async def run() -> float:
        async with application.router.lifespan_context(application):
            client = Client(application)
            await client("POST", "/v2/models/mlp/infer", json=good())
            loop = asyncio.get_running_loop()
            fastest = 1.0
            for _ in range(5):
                start = loop.time()
                await client("POST", "/v2/models/mlp/infer", json=good())
                fastest = min(fastest, loop.time() - start)
            return fastest

    assert asyncio.run(run()) < 0.045


def test_a_client_that_has_gone_is_not_run_for(models):
    served = Served("mlp", models["mlp"])
    ran: list[int] = []

    async def run() -> None:
        batcher = Batcher(served, None, 4, 0.0, lambda name, rows: ran.append(rows))  # type: ignore[arg-type]
        batcher.start()
        asked = served.asked([np.zeros((1, 4), np.float32)])
        gone = asyncio.create_task(batcher(asked))
        await asyncio.sleep(0)
        gone.cancel()
        await batcher(asked)
        await batcher.stop()

    asyncio.run(run())
    assert ran == [1]
