"""Requests that come together run together: a queue for each model, and one task that empties it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import suppress
from time import thread_time
from typing import Any, NamedTuple

import numpy as np

from .refusal import Refused
from .served import Asked, Served

INLINE_S = 20e-3
"""A run shorter than this stays on the event loop: a thread may wait 5 ms for Python's lock while the loop is busy, and
again at each op. What else the loop has to do, such as to say that the server is alive, waits that long."""
_KNOWN = 1024
Outputs = list[np.ndarray]


class _Waiting(NamedTuple):
    asked: Asked
    answer: asyncio.Future[Outputs]


class Batcher:
    """Runs what waits for one model, up to `most` rows at a time.

    It waits for more only while fewer requests are there than ran together the last time, and at most `wait_s`: one
    client alone is answered at once, and of many those that were answered together may come together again.
    """

    def __init__(self, model: Served, executor: Executor, most: int, wait_s: float,
                 ran: Callable[[str, int], None]) -> None:  # fmt: skip
        self.model, self.executor, self.most, self.wait_s, self.ran = model, executor, most, wait_s, ran
        self.waiting: deque[_Waiting] = deque()
        self._arrived = asyncio.Event()
        self._enough = asyncio.Event()
        self._together = 1  # requests in the last run
        self._took: dict[Any, float] = {}
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to run what comes."""
        self._task = asyncio.get_running_loop().create_task(self._work())

    async def stop(self) -> None:
        """Run what still waits, then end."""
        if self._task is not None:
            while self.waiting:
                await asyncio.sleep(0.01)
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def __call__(self, asked: Asked) -> Outputs:
        """Return the outputs of a request. *Raises*: Refused, of a full queue too."""
        if len(self.waiting) >= self.model.limits.queue:
            raise Refused(429, "queue full", f"{self.model.limits.queue} requests wait for {self.model.name}; "
                                             "needed: try again later")  # fmt: skip
        answer: asyncio.Future[Outputs] = asyncio.get_running_loop().create_future()
        self.waiting.append(_Waiting(asked, answer))
        self._arrived.set()
        if len(self.waiting) >= self._together:
            self._enough.set()
        return await answer

    async def _work(self) -> None:
        while True:
            await self._arrived.wait()
            if self.wait_s and len(self.waiting) < self._together:
                self._enough.clear()
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._enough.wait(), self.wait_s)
            group = self._next()
            self._together = min(len(group) + len(self.waiting), self.most)
            if group:
                await self._run(group)
            if not self.waiting:
                self._arrived.clear()

    def _next(self) -> list[_Waiting]:
        """Take the first request, and those after it that may share its run."""
        group: list[_Waiting] = []
        passed: list[_Waiting] = []
        rows = 0
        while self.waiting and (rows < self.most or not group):
            one = self.waiting.popleft()
            if one.answer.done():  # its client has gone
                continue
            if not group:
                group.append(one)
                rows = one.asked.rows
                if self.model.stacked is None:
                    break
            elif one.asked.others == group[0].asked.others and rows + one.asked.rows <= self.most:
                group.append(one)
                rows += one.asked.rows
            else:
                passed.append(one)
        self.waiting.extendleft(reversed(passed))
        return group

    async def _run(self, group: list[_Waiting]) -> None:
        """Run a group and hand the outputs out; where they cannot run together, each by itself."""
        requests = [one.asked for one in group]
        if len(requests) > 1:
            try:
                found = await self._timed(requests, self.model.run_together)
            except Exception:  # whose fault it is, the runs apart tell
                found = None
            if found is not None:
                self.ran(self.model.name, sum(r.rows for r in requests))
                for one, outputs in zip(group, found, strict=True):
                    _answer(one, outputs)
                return
        for one in group:
            try:
                outputs = await self._timed([one.asked], lambda requests: self.model.run(requests[0].arrays))
                self.ran(self.model.name, one.asked.rows)
                _answer(one, outputs)
            except Exception as error:
                if not one.answer.done():
                    one.answer.set_exception(error)

    async def _timed(self, requests: list[Asked], work: Callable[[list[Asked]], Any]) -> Any:
        """Do it on the event loop where such sizes took no time, else in the executor's thread."""
        key = (requests[0].others, sum(r.rows for r in requests).bit_length())
        if self._took.get(key, 1.0) < INLINE_S:
            found, seconds = _measured(work, requests)
        else:
            loop = asyncio.get_running_loop()
            found, seconds = await loop.run_in_executor(self.executor, _measured, work, requests)
        if len(self._took) >= _KNOWN:
            self._took.clear()
        self._took[key] = seconds
        return found


def _measured(work: Callable[[list[Asked]], Any], requests: list[Asked]) -> tuple[Any, float]:
    start = thread_time()  # of the processor: what others do on a busy machine is no reason to go to a thread
    found = work(requests)
    return found, thread_time() - start


def _answer(one: _Waiting, outputs: Outputs) -> None:
    if not one.answer.done():
        one.answer.set_result(outputs)
