"""A served model, asked in this process; and one in a process of its own."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import core
from core import nn
from lab.serving import Limits, app

LIMITS = Limits(body=4096, tensors=4, elements=256, made=4096, queue=8, body_s=0.5)
ROOT = Path(__file__).parents[3]


def mlp() -> Any:
    core.manual_seed(0)
    return core.export(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)), (core.ones(5, 4),),
                       dynamic={"input": {0: "batch"}})  # fmt: skip


def table() -> Any:
    """An embedding, and a number a row: two inputs, two outputs, two named sizes, a guard."""
    core.manual_seed(0)
    weight = core.randn(10, 6)

    def table(tokens: Any, scale: Any) -> Any:
        if tokens.shape[1] > 20:
            return weight[tokens].sum(1), scale
        return {"vectors": weight[tokens].sum(1) * scale, "first": tokens[:, 0]}

    args = (core.tensor([[1, 2, 3]] * 4), core.ones(4, 1))
    return core.export(table, args, dynamic={"tokens": {0: "batch", 1: "time"}, "scale": {0: "batch"}})


def outer() -> Any:
    """A program that makes more than it takes."""
    return core.export(lambda x: (x[:, None] * x).sum(0), (core.ones(5),), dynamic={"x": {0: "n"}}, name="outer")


def tensor(name: str, datatype: str, shape: list[int], data: list[Any]) -> dict[str, Any]:
    return {"name": name, "datatype": datatype, "shape": shape, "data": data}


def good(rows: int = 1) -> dict[str, Any]:
    return {"inputs": [tensor("input", "FP32", [rows, 4], [float(k) for k in range(4 * rows)])]}


class Client:
    """Asks an application as HTTP would, with no network between."""

    def __init__(self, application: Any) -> None:
        self.application = application

    async def __call__(self, method: str, path: str, **options: Any) -> httpx.Response:
        transport = httpx.ASGITransport(self.application, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as http:
            return await http.request(method, path, **options)


@pytest.fixture
def models() -> dict[str, Any]:
    return {"mlp": mlp(), "table": table(), "outer": outer()}


@pytest.fixture
def application(models: dict[str, Any]) -> Any:
    return app(models, limits=LIMITS)


class Child:
    """`lab.serving.command.serve` in a process, at a free port."""

    def __init__(self, text: str) -> None:
        command = [sys.executable, "-c", text]
        self.process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert self.process.stdout is not None
        self.said = self.process.stdout.readline()
        assert self.said.startswith("lab serve: http"), self.said + self.process.stdout.read()
        self.url = self.said.split()[2].removesuffix(",").removesuffix("/v2")

    def ask(self, path: str, body: Any = None, headers: dict[str, str] | None = None) -> tuple[int, Any]:
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        asked = urllib.request.Request(self.url + path, data, headers or {})
        try:
            with urllib.request.urlopen(asked, timeout=60) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()

    def end(self) -> tuple[int, str]:
        """Send SIGTERM; the exit status, and what it said."""
        self.process.send_signal(signal.SIGTERM)
        said, _ = self.process.communicate(timeout=60)
        return self.process.returncode, said


@pytest.fixture
def child() -> Iterator[Callable[[str], Child]]:
    started: list[Child] = []

    def start(text: str) -> Child:
        started.append(Child(text))
        return started[-1]

    yield start
    for one in started:
        if one.process.poll() is None:
            one.process.kill()
            one.process.communicate()
