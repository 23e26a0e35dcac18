"""``python -m lab bench serving``: `lab serve` under load: beside LitServe, batched and not, and for long.

The contestants run at once and are asked in turn, so that what else the machine does hits them alike; the ratio is the
median of the rounds'. The client is wrk where there is one, else one of asyncio's with httpx.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import httpx

from ..console.options import Parser
from . import serving_contestants as contestants

START_S = 120
_WRK = 'wrk.method = "POST"; wrk.headers["Content-Type"] = "application/json"; wrk.body = [==[{body}]==]'


class Contestant(NamedTuple):
    """A server that runs: what it is called, where it is asked, with what, and its process."""

    title: str
    url: str
    body: str
    process: subprocess.Popen[bytes]

    def processor_s(self) -> float:
        """Return the processor time of the server's processes so far (Linux; elsewhere not a number)."""
        ticks, found = 0, False
        for path in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):
                fields = path.read_text().rpartition(")")[2].split()
                if fields[3] == str(self.process.pid):  # the session that it leads
                    ticks, found = ticks + int(fields[11]) + int(fields[12]), True
        return ticks / os.sysconf("SC_CLK_TCK") if found else float("nan")


class Load(NamedTuple):
    """What a client saw in some seconds."""

    per_s: float
    p50_ms: float
    failed: int
    processor_ms: float = float("nan")
    """Of the server's processes, by request: what a busy machine does not change."""


@contextmanager
def contestant(who: str, model: str, batch: int) -> Iterator[Contestant]:
    """Start a server, wait until it answers, and stop it at the end by SIGTERM."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    module = "serving_contestants" if who == "ours" else "serving_litserve"
    command = [sys.executable, "-m", f"lab.benchmarks.{module}", model, str(port), str(batch)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                               start_new_session=True)  # fmt: skip
    path = f"/v2/models/{model}/infer" if who == "ours" else "/predict"
    found = Contestant(f"{'lab serve' if who == 'ours' else 'LitServe'}, {model}, batch {batch}",
                       f"http://127.0.0.1:{port}{path}", json.dumps(contestants.request(model)), process)  # fmt: skip
    try:
        _wait(found)
        yield found
    finally:
        process.send_signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(10)
        with suppress(ProcessLookupError):  # its workers, which may outlive it
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _wait(found: Contestant) -> None:
    end = time.monotonic() + START_S
    asked = urllib.request.Request(found.url, found.body.encode(), {"Content-Type": "application/json"})
    while True:
        try:
            with urllib.request.urlopen(asked, timeout=10) as answer:
                answer.read()
            return
        except urllib.error.HTTPError as error:
            raise RuntimeError(f"{found.title} answered {error.code}: {error.read()[:500]!r}") from None
        except OSError:
            if found.process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"{found.title} did not start (is it installed?)") from None
            time.sleep(0.2)


def load(one: Contestant, connections: int, seconds: float) -> Load:
    """Ask a server for some seconds over some connections, each asking again as soon as it is answered."""
    before = one.processor_s()
    if shutil.which("wrk"):
        found = _wrk(one, connections, seconds)
    else:
        found = asyncio.run(_asked(one, connections, seconds))
    return found._replace(processor_ms=1e3 * (one.processor_s() - before) / max(found.per_s * seconds, 1))


def _wrk(one: Contestant, connections: int, seconds: float) -> Load:
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "post.lua")
        script.write_text(_WRK.format(body=one.body))
        command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds:.0f}s", "--timeout", "30s", "--latency", "-s"]
        said = subprocess.run([*command, str(script), one.url], capture_output=True, text=True, check=True).stdout
    per_s = float(re.search(r"Requests/sec:\s+([\d.]+)", said)[1])  # type: ignore[index]
    number, unit = re.search(r"50%\s+([\d.]+)(us|ms|s)", said).groups()  # type: ignore[union-attr]
    wrong = re.search(r"Non-2xx or 3xx responses: (\d+)", said)
    return Load(per_s, float(number) * {"us": 1e-3, "ms": 1.0, "s": 1e3}[unit], int(wrong[1]) if wrong else 0)


async def _asked(one: Contestant, connections: int, seconds: float) -> Load:
    times: list[float] = []
    failed = 0
    end = time.perf_counter() + seconds

    async def client(http: httpx.AsyncClient) -> None:
        nonlocal failed
        while time.perf_counter() < end:
            start = time.perf_counter()
            answer = await http.post(one.url, content=one.body, headers={"Content-Type": "application/json"})
            times.append(time.perf_counter() - start)
            failed += answer.status_code != 200

    async with httpx.AsyncClient(timeout=30) as http:
        await asyncio.gather(*(client(http) for _ in range(connections)))
    return Load(len(times) / seconds, 1e3 * statistics.median(times or [float("nan")]), failed)


def compared(a: tuple[str, str, int], b: tuple[str, str, int], connections: int, rounds: int,
             seconds: float) -> dict[str, Any]:  # fmt: skip
    """Return requests per second of two servers asked in turn, and the median of their ratios by round."""
    with ExitStack() as stack:
        both = [stack.enter_context(contestant(*who)) for who in (a, b)]
        for one in both:
            load(one, connections, 1)
        loads = [[load(one, connections, seconds) for one in both] for _ in range(rounds)]
    ratios = [x.per_s / y.per_s for x, y in loads]
    for k, one in enumerate(both):
        of = [pair[k] for pair in loads]
        per_s, p50_ms, processor_ms = (statistics.median(x[field] for x in of) for field in (0, 1, 3))
        failed = sum(x.failed for x in of)
        print(f"  {one.title:30} {per_s:8,.0f} requests/s (rounds: {', '.join(f'{x.per_s:,.0f}' for x in of)}), "
              f"p50 {p50_ms:.1f} ms, {processor_ms:.2f} ms of processor each{f', {failed} failed' if failed else ''}",
              flush=True)  # fmt: skip
    ratio = statistics.median(ratios)
    processor = statistics.median(y.processor_ms / x.processor_ms for x, y in loads)
    print(f"  ratio {ratio:.2f} (rounds: {', '.join(f'{r:.2f}' for r in ratios)}); by processor time {processor:.2f}",
          flush=True)  # fmt: skip
    return {"contestants": [one.title for one in both], "connections": connections, "ratio": ratio,
            "loads": [[x._asdict() for x in pair] for pair in loads]}  # fmt: skip


def resident_mib(process: int) -> float:
    """Return the memory that a process has, in MiB (Linux)."""
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{process}/status").read_text())
    return int(found[1]) / 1024 if found else float("nan")


def soak(seconds: float, connections: int = 16) -> dict[str, Any]:
    """Return the server's memory while it is asked for so long; sound and refused requests in turn."""
    with contestant("ours", "mlp", 32) as good:
        bad = good._replace(body=good.body.replace('"FP32"', '"FP64"'))
        load(good, connections, 5)  # what a first load allocates stays
        sizes = [resident_mib(good.process.pid)]
        answered, end = 0.0, time.monotonic() + seconds
        while time.monotonic() < end:
            step = min(10.0, seconds / 6)
            answered += step * load(good, connections, step).per_s
            load(bad, connections, 1)
            sizes.append(resident_mib(good.process.pid))
    print(f"  about {answered:,.0f} requests in {seconds:.0f} s; resident MiB: "
          f"{', '.join(f'{x:.1f}' for x in sizes)}", flush=True)  # fmt: skip
    return {"seconds": seconds, "requests": answered, "resident_mib": sizes}


def main(argv: list[str]) -> int:
    """Run the command line; 0 where everything was measured."""
    parser = Parser(prog="python -m lab bench serving", description=__doc__,
                    example="python -m lab bench serving --rounds 3 --json serving.json")  # fmt: skip
    parser.add_argument(
        "what", nargs="*", metavar="SECTION", help="litserve, batching, soak; the first two if left out"
    )
    parser.add_argument("--rounds", type=int, default=3, help="of each contestant (3)")
    parser.add_argument("--seconds", type=float, default=5, help="of a round (5)")
    parser.add_argument("--soak-seconds", type=float, default=600, help="of the soak (600)")
    parser.add_argument("--json", help="write the figures to this file")
    options = parser.parse_args(argv)
    what = options.what or ["litserve", "batching"]
    if unknown := set(what) - {"litserve", "batching", "soak"}:
        parser.error(f"nothing is called {', '.join(unknown)}: there are litserve, batching, soak")
    found: dict[str, Any] = {}
    if "litserve" in what:
        print("an MLP at 16 connections, beside LitServe")
        found["litserve"] = compared(("ours", "mlp", 32), ("litserve", "mlp", 32), 16, options.rounds, options.seconds)
    if "batching" in what:
        print("a small GPT at 32 connections, with and without batching")
        found["batching"] = compared(("ours", "gpt", 32), ("ours", "gpt", 1), 32, options.rounds, options.seconds)
    if "soak" in what:
        print("memory under load")
        found["soak"] = soak(options.soak_seconds)
    if options.json:
        Path(options.json).write_text(json.dumps(found, indent=1))
    return 0
