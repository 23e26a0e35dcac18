"""The protocol: what is told of models, what they answer, what is refused, and that the server lives on."""

from __future__ import annotations

import asyncio
import json
import math
from typing import Any

import numpy as np
import pytest

import core
from lab.serving import Limits, app

from .conftest import Client, good, tensor

INFER = "/v2/models/mlp/infer"


def asked(application: Any, *requests: tuple[str, str, dict[str, Any]]) -> list[Any]:
    """The answers to requests sent one after the other while the application lives."""

    async def run() -> list[Any]:
        async with application.router.lifespan_context(application):
            client = Client(application)
            return [await client(method, path, **options) for method, path, options in requests]

    return asyncio.run(run())


def post(application: Any, body: Any, path: str = INFER, **options: Any) -> Any:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return asked(application, ("POST", path, {"content": content, **options}))[0]


def test_what_it_tells_of_itself(application):
    paths = ("/v2", "/v2/health/live", "/v2/health/ready", "/v2/models/table", "/v2/models/table/ready", "/metrics")
    answers = asked(application, *(("GET", path, {}) for path in paths))
    assert [a.status_code for a in answers] == [200] * 6
    server, live, ready, model, model_ready, metrics = answers
    assert server.json() == {"name": "gradlab", "version": core.__version__, "extensions": ["binary_tensor_data"]}
    assert live.json() == {"live": True}
    assert ready.json() == {"ready": True}
    assert model.json()["inputs"] == [{"name": "tokens", "datatype": "INT64", "shape": [-1, -1]},
                                      {"name": "scale", "datatype": "FP32", "shape": [-1, 1]}]  # fmt: skip
    assert [y["shape"] for y in model.json()["outputs"]] == [[-1, 6], [-1]]
    assert model_ready.json() == {"name": "table", "ready": True}
    assert metrics.headers["content-type"].startswith("text/plain; version=0.0.4")


def test_it_is_not_ready_before_it_has_started(application):
    assert asyncio.run(Client(application)("GET", "/v2/health/ready")).status_code == 503


def test_a_model_answers_what_the_program_gives(application, models):
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    wanted = models["mlp"](core.from_numpy(x)).numpy()
    for data in (x.ravel().tolist(), x.tolist()):  # flat or nested
        answer = post(application, {"id": "7", "inputs": [tensor("input", "FP32", [2, 4], data)]})
        assert answer.status_code == 200
        (y,) = answer.json()["outputs"]
        assert (answer.json()["id"], answer.json()["model_name"]) == ("7", "mlp")
        assert (y["datatype"], y["shape"]) == ("FP32", [2, 3])
        np.testing.assert_array_equal(np.float32(y["data"]).reshape(2, 3), wanted)


def test_several_tensors_in_any_order_and_some_of_the_outputs(application, models):
    name = application.state.models["table"].output_names
    body = {"inputs": [tensor("scale", "FP32", [2, 1], [2, 3]), tensor("tokens", "INT64", [2, 2], [[1, 2], [3, 4]])]}
    answer = post(application, body, "/v2/models/table/infer").json()
    wanted = models["table"](core.tensor([[1, 2], [3, 4]]), core.tensor([[2.0], [3.0]]))
    np.testing.assert_allclose(answer["outputs"][0]["data"], wanted["vectors"].numpy().ravel(), rtol=1e-6)
    assert answer["outputs"][1]["data"] == [1, 3]
    body["outputs"] = [{"name": name[1]}]
    assert [y["name"] for y in post(application, body, "/v2/models/table/infer").json()["outputs"]] == [name[1]]


def test_tensors_as_bytes(application, models):
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    entry = {"name": "input", "datatype": "FP32", "shape": [2, 4], "parameters": {"binary_data_size": 32}}
    head = json.dumps({"inputs": [entry], "parameters": {"binary_data_output": True}}).encode()
    answer = post(application, head + x.tobytes(), headers={"Inference-Header-Content-Length": str(len(head))})
    assert answer.status_code == 200
    length = int(answer.headers["inference-header-content-length"])
    (y,) = json.loads(answer.content[:length])["outputs"]
    assert y["parameters"] == {"binary_data_size": 24}
    found = np.frombuffer(answer.content[length:], np.float32).reshape(y["shape"])
    np.testing.assert_array_equal(found, models["mlp"](core.from_numpy(x)).numpy())


def entry(**changes: Any) -> dict[str, Any]:
    return {"inputs": [{**good()["inputs"][0], **changes}]}


def without(key: str) -> dict[str, Any]:
    return {"inputs": [{k: v for k, v in good()["inputs"][0].items() if k != key}]}


WRONG: dict[str, tuple[Any, int, str]] = {
    "nothing": (b"", 400, "no JSON"),
    "no JSON": (b"{inputs", 400, "no JSON"),
    "no text": (b"\xff\xfe\x00", 400, "no JSON"),
    "brackets without end": (b"[" * 4000, 400, "no JSON"),
    "a list": ([], 400, "has to be an object; came: list"),
    "no inputs": ({}, 400, "'inputs' has to be a list; came: nothing"),
    "inputs of another kind": ({"inputs": 3}, 400, "'inputs' has to be a list; came: int"),
    "too many tensors": ({"inputs": good()["inputs"] * 5}, 413, "5 tensors; needed: at most 4"),
    "an input that is no object": ({"inputs": [1]}, 400, "inputs[0] has to be an object"),
    "no name": (without("name"), 400, "'name' has to be a text"),
    "an unknown name": (entry(name="y"), 400, "'y' is no input of the model; needed: input"),
    "a name twice": ({"inputs": good()["inputs"] * 2}, 400, "'input' comes twice"),
    "an input missing": ({"inputs": []}, 400, "the inputs input are missing"),
    "no datatype": (without("datatype"), 400, "'datatype' has to be a text"),
    "another datatype": (entry(datatype="FP64"), 400, "is FP32; came: 'FP64'"),
    "an unknown datatype": (entry(datatype="<b>"), 400, "is FP32; came: '<b>'"),
    "no shape": (without("shape"), 400, "'shape' has to be a list"),
    "a shape of texts": (entry(shape=["1", 4]), 400, "whole numbers from 0"),
    "a shape of truth values": (entry(shape=[True, 4]), 400, "whole numbers from 0"),
    "a negative size": (entry(shape=[-1, 4]), 400, "whole numbers from 0"),
    "a size with a point": (entry(shape=[1.0, 4]), 400, "whole numbers from 0"),
    "too many sizes": (entry(shape=[1] * 40), 400, "a shape of 40 sizes"),
    "another shape": (entry(shape=[1, 5]), 400, "another shape; came: [1, 5]; needed: input: float32[batch, 4]"),
    "another number of sizes": (entry(shape=[4]), 400, "another shape; came: [4]"),
    "too many elements": (entry(shape=[10**9, 4]), 413, "is too large; needed: at most 256"),
    "a large size of nothing": (entry(shape=[0, 10**15]), 413, "is too large"),
    "no data": (without("data"), 400, "'data' has to be a list; came: nothing"),
    "data of another kind": (entry(data="1234"), 400, "'data' has to be a list; came: str"),
    "too few data": (entry(data=[1, 2, 3]), 400, "3 elements of data for the shape [1, 4]; needed: 4"),
    "uneven data": (entry(data=[[1, 2, 3]]), 400, "nested otherwise"),
    "data nested too deep": (entry(data=[[[1, 2, 3, 4]]]), 400, "at depth 1, lists of 4"),
    "texts as data": (entry(data=["1", "2", "3", "4"]), 400, "FP32 needs numbers; came: a text"),
    "truth values as data": (entry(data=[1, 2, 3, True]), 400, "FP32 needs numbers; came: a truth value"),
    "null as data": (entry(data=[1, 2, 3, None]), 400, "came: null"),
    "objects as data": (entry(data=[1, 2, 3, {}]), 400, "came: an object"),
    "a number too large": (entry(data=[1, 2, 3, 1e300]), 400, "too large for FP32"),
    "a whole number too large": (entry(data=[1, 2, 3, 10**400]), 400, "too large for FP32"),
    "an id of another kind": ({**good(), "id": 3}, 400, "'id' has to be a text"),
    "an unknown output": ({**good(), "outputs": [{"name": "z"}]}, 400, "'z' is no output of the model"),
    "outputs of another kind": ({**good(), "outputs": "y"}, 400, "'outputs' has to be a list"),
    "parameters of another kind": ({**good(), "parameters": []}, 400, "'parameters' has to be an object"),
    "too large a body": (b" " * 5000, 413, "the body is too large; came: 5,000 bytes; needed: at most 4,096"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_refused_with_the_reason(application, case):
    body, status, said = WRONG[case]
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    wrong, sound = asked(application, ("POST", INFER, {"content": content}), ("POST", INFER, {"json": good()}))
    assert wrong.status_code == status, wrong.text
    assert list(wrong.json()) == ["error"]
    assert said in wrong.json()["error"]
    assert sound.status_code == 200


@pytest.mark.parametrize(("length", "size", "extra", "said"), [
    ("x", 16, b"", "has to be the bytes of the JSON"),
    ("99999", 16, b"", "has to be the bytes of the JSON"),
    ("", 16, b"", "has to be the bytes of the JSON"),
    (None, 999, b"", "from 0 to the 16 bytes that are left"),
    (None, -1, b"", "from 0 to the 16 bytes that are left"),
    (None, True, b"", "from 0 to the 16 bytes that are left"),
    (None, 12, b"", "12 bytes for the shape [1, 4]; needed: 16"),
    (None, 16, b"more", "4 bytes behind the JSON belong to no tensor"),
])  # fmt: skip
def test_bytes_that_do_not_fit_are_refused(application, length, size, extra, said):
    head = json.dumps({"inputs": [{"name": "input", "datatype": "FP32", "shape": [1, 4],
                                   "parameters": {"binary_data_size": size}}]}).encode()  # fmt: skip
    length = str(len(head)) if length is None else length
    answer = post(application, head + bytes(16) + extra, headers={"Inference-Header-Content-Length": length})
    assert answer.status_code == 400
    assert said in answer.json()["error"]


def test_data_and_bytes_at_once_are_refused(application):
    answer = post(application, entry(parameters={"binary_data_size": 0}))
    assert answer.status_code == 400
    assert "'data' and 'binary_data_size'" in answer.json()["error"]


@pytest.mark.parametrize(("method", "path", "status", "said"), [
    ("POST", "/v2/models/other/infer", 404, "no model is called 'other'; there are mlp, table, outer"),
    ("GET", "/v2/models/other", 404, "no model is called 'other'"),
    ("GET", "/v2/models/other/ready", 404, "no model is called 'other'"),
    ("GET", INFER, 405, "Method Not Allowed"),
    ("POST", "/v2", 405, "Method Not Allowed"),
    ("GET", "/nowhere", 404, "Not Found"),
    ("GET", "/docs", 404, "Not Found"),
])  # fmt: skip
def test_what_is_not_there(application, method, path, status, said):
    (answer,) = asked(application, (method, path, {}))
    assert answer.status_code == status
    assert said in answer.json()["error"]


def test_sizes_that_do_not_agree_and_guards(application):
    path = "/v2/models/table/infer"
    body = {"inputs": [tensor("tokens", "INT64", [2, 1], [1, 2]), tensor("scale", "FP32", [3, 1], [1, 2, 3])]}
    assert "the input scale of the program table has another shape" in post(application, body, path).json()["error"]
    body = {"inputs": [tensor("tokens", "INT64", [1, 21], [1] * 21), tensor("scale", "FP32", [1, 1], [1])]}
    answer = post(application, body, path)
    assert answer.status_code == 400
    assert "was exported where" in answer.json()["error"]
    assert "test" not in answer.json()["error"].partition("was exported")[0]


def test_what_the_program_would_make_is_bounded_too(application):
    sound = {"inputs": [tensor("x", "FP32", [64], [0.0] * 64)]}
    large = {"inputs": [tensor("x", "FP32", [65], [0.0] * 65)]}
    assert post(application, sound, "/v2/models/outer/infer").status_code == 200
    answer = post(application, large, "/v2/models/outer/infer")
    assert answer.status_code == 413
    assert "makes a tensor of 4,225 elements; needed: at most 4,096" in answer.json()["error"]


@pytest.mark.parametrize("tokens", [[99], [-11]])
def test_what_the_program_cannot_do_is_the_datas_fault(application, tokens):
    body = {"inputs": [tensor("tokens", "INT64", [1, 1], tokens), tensor("scale", "FP32", [1, 1], [1])]}
    answer = post(application, body, "/v2/models/table/infer")
    assert answer.status_code == 400
    assert "IndexError" in answer.json()["error"]


@pytest.mark.parametrize(("datatype", "data"), [("INT64", [1.5]), ("INT64", [2**63]), ("INT64", [True])])
def test_whole_numbers_are_whole_and_fit(application, datatype, data):
    body = {"inputs": [tensor("tokens", datatype, [1, 1], data), tensor("scale", "FP32", [1, 1], [1])]}
    answer = post(application, body, "/v2/models/table/infer")
    assert answer.status_code == 400
    assert "tokens" in answer.json()["error"]


def test_an_id_that_is_no_text_comes_back(application):
    answer = post(application, json.dumps({**good(), "id": "\ud800"}).encode())
    assert answer.status_code == 200
    assert answer.json()["id"] == "\ud800"


def test_not_a_number_goes_in_and_out_as_python_writes_it(application):
    answer = post(application, b'{"inputs":[{"name":"input","datatype":"FP32","shape":[1,4],"data":[NaN,0,0,0]}]}')
    assert answer.status_code == 200
    assert all(math.isnan(v) for v in answer.json()["outputs"][0]["data"])


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16",
                                   "float32", "float64"])  # fmt: skip
def test_every_dtype_goes_in_and_out(dtype):
    x = core.tensor([[1, 0, 1]], dtype=getattr(core, dtype))
    program = core.export(lambda x: x.flip(1), (x,), name="flip")
    application = app({"flip": program})
    (entry,) = application.state.models["flip"].document()["inputs"]
    data = [True, True, False] if dtype == "bool" else [1, 1, 0]
    body = {"inputs": [tensor(entry["name"], entry["datatype"], [1, 3], data)]}
    answer = post(application, body, "/v2/models/flip/infer")
    assert answer.status_code == 200, answer.text
    assert answer.json()["outputs"][0]["data"] == data[::-1]
    assert answer.json()["outputs"][0]["datatype"] == entry["datatype"]


def test_a_slow_body_is_refused(application):
    async def run() -> list[dict[str, Any]]:
        sent: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            if sent or receive.count:  # type: ignore[attr-defined]
                await asyncio.sleep(60)
            receive.count = 1  # type: ignore[attr-defined]
            return {"type": "http.request", "body": b"{", "more_body": True}

        receive.count = 0  # type: ignore[attr-defined]

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        scope = {"type": "http", "method": "POST", "path": INFER, "raw_path": INFER.encode(), "query_string": b"",
                 "headers": [], "root_path": "", "http_version": "1.1", "scheme": "http"}  # fmt: skip
        async with application.router.lifespan_context(application):
            await application(scope, receive, send)
        return sent

    sent = asyncio.run(run())
    assert sent[0]["status"] == 408
    assert "1 bytes of the body came in 0.5 s" in json.loads(sent[1]["body"])["error"]


def test_a_body_without_length_is_cut_off(application):
    async def parts() -> Any:
        for _ in range(10):
            yield b" " * 1000

    async def run() -> Any:
        async with application.router.lifespan_context(application):
            return await Client(application)("POST", INFER, content=parts())

    answer = asyncio.run(run())
    assert answer.status_code == 413
    assert "came: more bytes" in answer.json()["error"]


def test_the_metrics_count(application):
    bad = {"inputs": []}
    *_, metrics = asked(application, ("POST", INFER, {"json": good(3)}), ("POST", INFER, {"json": bad}),
                        ("POST", "/v2/models/zzz/infer", {"json": bad}), ("GET", "/zzz", {}),
                        ("GET", "/metrics", {}))  # fmt: skip
    lines = metrics.text.splitlines()
    assert 'gradlab_requests_total{model="mlp"} 1' in lines
    assert 'gradlab_errors_total{model="mlp",reason="names"} 1' in lines
    assert 'gradlab_errors_total{model="",reason="unknown model"} 1' in lines
    assert 'gradlab_errors_total{model="",reason="not found"} 1' in lines
    assert 'gradlab_request_seconds_count{model="mlp"} 1' in lines
    assert 'gradlab_batch_rows_bucket{model="mlp",le="2"} 0' in lines
    assert 'gradlab_batch_rows_bucket{model="mlp",le="4"} 1' in lines
    assert 'gradlab_queue_length{model="table"} 0' in lines
    assert "zzz" not in metrics.text  # a client's words are no labels


def test_programs_that_cannot_be_served_are_refused_at_once():
    norm = core.nn.BatchNorm1d(3)
    program = core.export(norm, (core.randn(4, 3),), dynamic={"input": {0: "batch"}})
    with pytest.raises(ValueError, match=r"moves its own state on .*model\.eval\(\)"):
        app({"norm": program})
    program = core.export(norm.eval(), (core.randn(4, 3),), dynamic={"input": {0: "batch"}})
    assert app({"norm": program}).state.models["norm"].stacked == "batch"
    with pytest.raises(ValueError, match="stands in addresses"):
        app({"a/b": program})
    with pytest.raises(ValueError, match="knows no complex64"):
        app({"c": core.export(lambda x: x * 1j, (core.ones(2),))})
    with pytest.raises(ValueError, match="batch has to be at least 1"):
        app({"norm": program}, batch=0)


def test_a_program_that_writes_its_input_is_served():
    program = core.export(lambda x: x.mul_(2) * 1, (core.ones(3, 2),), dynamic={"x": {0: "batch"}}, name="double")
    entry = {"name": "x", "datatype": "FP32", "shape": [1, 2], "parameters": {"binary_data_size": 8}}
    head = json.dumps({"inputs": [entry]}).encode()
    headers = {"Inference-Header-Content-Length": str(len(head))}
    answer = post(app({"double": program}), head + np.float32([1, 2]).tobytes(), "/v2/models/double/infer",
                  headers=headers)  # fmt: skip
    assert answer.json()["outputs"][0]["data"] == [2.0, 4.0]


def test_limits_have_sound_defaults():
    assert Limits().body < 1 << 30
    assert Limits().elements * 8 <= 1 << 30
