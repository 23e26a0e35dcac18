"""`python -m lab serve`: its options and errors, an end under load that loses nothing, memory that stays flat."""

from __future__ import annotations

import http.client
import json
import re
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

import core
from lab import __main__ as lab_main
from lab.console import commands
from lab.serving import command

from .conftest import Child, good, mlp

SERVE = """
import sys
import core
from tests.lab.serving.conftest import mlp
from lab.serving import app, command
core.set_num_threads(1)
sys.exit(command.serve(app({"mlp": mlp()}), "127.0.0.1", 0, 30))
"""
SLOW = SERVE.replace(
    "core.set_num_threads(1)",
    """
from lab.serving.served import Served
import time
was = Served.run
def run(self, arrays):
    time.sleep(0.05)
    return was(self, arrays)
Served.run = run
""",
)


def ask_until(url: str, stop: Callable[[], bool], answered: list[int]) -> None:
    """Ask over one connection after the other, many requests each; the statuses of whole answers are kept."""
    place = urlsplit(url)
    body = json.dumps(good())
    while not stop():
        try:
            connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=30)
            for _ in range(20):
                connection.request("POST", "/v2/models/mlp/infer", body, {"Content-Type": "application/json"})
                answer = connection.getresponse()
                content = answer.read()
                assert json.loads(content)["outputs"][0]["shape"] == [1, 3]
                answered.append(answer.status)
            connection.close()
        except (OSError, http.client.HTTPException):
            if stop():
                return


@pytest.mark.parametrize("text", [SERVE, SLOW], ids=["fast", "slow"])
def test_the_end_under_load_loses_no_accepted_request(child: Callable[[str], Child], text: str) -> None:
    server = child(text)
    answered: list[int] = []
    over = threading.Event()
    clients = [threading.Thread(target=ask_until, args=(server.url, over.is_set, answered)) for _ in range(8)]
    for client in clients:
        client.start()
    time.sleep(1.0)
    threading.Timer(0.5, over.set).start()  # they go on asking while it ends
    status, said = server.end()
    for client in clients:
        client.join()
    assert status == 0, said
    (found,) = re.findall(r"stopped; answered (\d+) of (\d+) requests", said)
    assert found[0] == found[1]
    assert int(found[0]) == len(answered) > 8  # all that it took, the clients have
    assert set(answered) == {200}
    with pytest.raises(OSError, match="refused"):
        server.ask("/v2")


def test_the_server_lives_on_after_broken_connections(child: Callable[[str], Child]) -> None:
    server = child(SERVE)
    place = urlsplit(server.url)
    for sent in (b"POST /v2/models/mlp/infer HTTP/1.1\r\nContent-Length: 100\r\n\r\n{", b"\x00\x01\x02\r\n\r\n",
                 b"POST /v2/models/mlp/infer HTTP/1.1\r\nContent-Length: x\r\n\r\n", b"GET"):  # fmt: skip
        connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=5)
        connection.connect()
        connection.sock.sendall(sent)
        connection.close()
    assert server.ask("/v2/models/mlp/infer", b" " * (17 << 20))[0] == 413
    assert server.ask("/v2/models/mlp/infer", good())[0] == 200
    assert server.end()[0] == 0


def resident_kib(process: int) -> int:
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{process}/status").read_text())
    assert found is not None
    return int(found[1])


@pytest.mark.by_turns
def test_memory_stays_flat_over_a_minute(child: Callable[[str], Child]) -> None:
    """`lab bench serving soak` does so for ten minutes, or as long as one likes."""
    server = child(SERVE)
    answered: list[int] = []
    over = threading.Event()
    clients = [threading.Thread(target=ask_until, args=(server.url, over.is_set, answered)) for _ in range(4)]
    for client in clients:
        client.start()
    try:
        sizes = []
        for _ in range(12):
            time.sleep(5)
            sizes.append(resident_kib(server.process.pid))
            assert server.ask("/v2/models/mlp/infer", {"inputs": []})[0] == 400
    finally:
        over.set()
        for client in clients:
            client.join()
    assert len(answered) > 1000
    assert max(sizes[6:]) - max(sizes[1:6]) < 2048, sizes  # KiB, from the first half minute to the second


def run(argv: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    status = lab_main.main(argv)
    captured = capsys.readouterr()
    return status, captured.out + captured.err


def test_its_help_and_unknown_options(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["serve", "--help"], ["serve"], ["serve", "m.gl", "--prot", "1"]):
        with pytest.raises(SystemExit):
            lab_main.main(words)
    captured = capsys.readouterr()
    assert "--max-body" in captured.out
    assert "did you mean --port?" in captured.err


@pytest.fixture
def saved(monkeypatch: pytest.MonkeyPatch) -> None:
    """A core whose saved programs are all the same one."""

    def load(path: str) -> Any:
        if not path.endswith(".gl"):
            raise FileNotFoundError(f"no such file: {path}")
        return mlp()

    monkeypatch.setitem(vars(core.export), "load", load)


@pytest.mark.usefixtures("saved")
def test_models_are_called_as_their_files_or_as_told(monkeypatch: pytest.MonkeyPatch) -> None:
    served: list[Any] = []
    monkeypatch.setattr(command, "serve", lambda *args: served.append(args) or 0)
    words = ["folder/a.gl", "b=folder/a.gl", "--port", "0", "--batch", "4", "--max-body", "99", "--queue", "7"]
    assert command.main(words) == 0
    ((application, host, port, drain),) = served
    assert list(application.state.models) == ["a", "b"]
    assert (host, port, drain) == ("127.0.0.1", 0, 30)
    limits = application.state.models["a"].limits
    assert (limits.body, limits.queue) == (99, 7)


@pytest.mark.usefixtures("saved")
@pytest.mark.parametrize(("words", "said"), [
    (["none"], "no such file: none"),
    (["a.gl", "b/a.gl"], "two models are called a. Remedy: NAME=b/a.gl"),
    (["a b=a.gl"], "stands in addresses"),
    (["a.gl", "--batch", "0"], "batch has to be at least 1"),
    (["a.gl", "--port", "99999"], "cannot listen at 127.0.0.1 port 99999"),
    (["a.gl", "--host", "256.0.0.1"], "cannot listen at 256.0.0.1"),
])  # fmt: skip
def test_what_cannot_start_says_why(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    status, told = run(["serve", *words], capsys)
    assert status == 1
    assert said in told
    assert "Traceback" not in told


def test_without_its_packages_it_names_the_remedy(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    def missing(name: str, package: str | None = None) -> Any:
        raise ImportError("lab.serving needs FastAPI and uvicorn. Remedy: pip install 'gradlab[serve]'")

    monkeypatch.setattr(commands.importlib, "import_module", missing)
    status, told = run(["serve", "a.gl"], capsys)
    assert status == 2
    assert "pip install 'gradlab[serve]'" in told
