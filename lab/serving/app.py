"""The application: the routes of the Open Inference Protocol, and the metrics.

Source: Open Inference Protocol, version 2, REST, https://github.com/kserve/open-inference-protocol.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import AsyncIterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from time import perf_counter
from typing import Any

from fastapi import FastAPI, Request
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, PlainTextResponse

import core

from . import wire
from .batching import Batcher
from .limits import Limits
from .metrics import Metrics
from .refusal import Refused
from .served import Served

LARGE = 1 << 18
"""Bytes of a body that are read in a thread, so that others are answered meanwhile."""
Headers = list[tuple[bytes, bytes]]
_log = logging.getLogger("lab.serving")


def app(programs: Mapping[str, Any], *, limits: Limits | None = None, batch: int = 32,
        wait_ms: float = 2.0) -> FastAPI:  # fmt: skip
    """Return the application that serves programs by their names; `application.state.models` has them as `Served`.

    batch : rows that share a run, at most; 1 for each request by itself. wait_ms : what a request may wait for others.

    *Raises*: ValueError for a program that cannot be served, with the reason.

    >>> import core
    >>> program = core.export(core.nn.ReLU(), (core.ones(4, 2),), dynamic={"input": {0: "batch"}})
    >>> app({"relu": program}).state.models["relu"].why
    'along batch'
    """
    if batch < 1 or not wait_ms >= 0:
        raise ValueError(f"batch has to be at least 1 and wait_ms at least 0; came: {batch}, {wait_ms}")
    models = {name: Served(name, program, limits) for name, program in programs.items()}
    server = _Server(models, limits or Limits(), batch, wait_ms / 1e3)
    application = _Application(server)
    application.state.models, application.state.metrics = models, server.metrics
    application.state.counts = server.counts
    _routes(application, server)
    return application


class _Server:
    """What the routes share."""

    def __init__(self, models: dict[str, Served], limits: Limits, batch: int, wait_s: float) -> None:
        self.models, self.limits, self.batch, self.wait_s = models, limits, batch, wait_s
        self.batchers: dict[str, Batcher] = {}
        self.metrics = Metrics(list(models), self.queue_length)
        self.counts = {"accepted": 0, "answered": 0}
        self.is_ready = False

    def queue_length(self, model: str) -> int:
        """Return how many requests wait for a model."""
        return len(self.batchers[model].waiting) if model in self.batchers else 0

    @asynccontextmanager
    async def living(self, application: FastAPI) -> AsyncIterator[None]:
        """Start the batchers, and run what waits before the end."""
        with ThreadPoolExecutor(1, "model") as executor:  # one run at a time: a kernel takes all processors by itself
            for name, model in self.models.items():
                self.batchers[name] = Batcher(model, executor, self.batch, self.wait_s, self.metrics.ran)
                self.batchers[name].start()
            self.is_ready = True
            yield
            self.is_ready = False
            for batcher in self.batchers.values():
                await batcher.stop()

    def model(self, name: str) -> Served:
        """Return a model. *Raises*: Refused for a name that there is not."""
        if name not in self.models:
            raise Refused(404, "unknown model", f"no model is called {name!r:.80}; there are {', '.join(self.models)}")
        return self.models[name]

    async def infer(self, name: str, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request for a run."""
        start = perf_counter()
        self.counts["accepted"] += 1
        try:
            model = self.model(name)
            headers = dict(scope["headers"])
            body = await self._body(headers, receive)
            json_length = headers.get(wire.HEADER.encode())
            if json_length is not None:
                json_length = json_length.decode("latin-1")
            if len(body) > LARGE:
                wanted = await asyncio.to_thread(wire.read, body, json_length, model)
            else:
                wanted = wire.read(body, json_length, model)
            outputs = await self.batchers[name](wanted.asked)
            if sum(y.nbytes for y in outputs) > LARGE:
                answer, told = await asyncio.to_thread(wire.written, outputs, wanted, model)
            else:
                answer, told = wire.written(outputs, wanted, model)
        except Refused as error:
            self.metrics.refused(name, error.reason)
            await _send(send, error.status, _error(error.message), _headers_of(error))
        except Exception as error:
            _log.exception("lab serve: %s failed", name)
            self.metrics.refused(name, "internal")
            await _send(send, 500, _error(f"{type(error).__name__}: {error}"), _JSON)
        else:
            self.metrics.answered(name, perf_counter() - start)
            await _send(send, 200, answer, told)
        self.counts["answered"] += 1

    async def _body(self, headers: dict[bytes, bytes], receive: Any) -> bytes:
        """Return a request's body. *Raises*: Refused for one that is too large, before it is here, or too slow."""
        said = headers.get(b"content-length", b"0")
        if said.isdigit() and int(said[:20]) > self.limits.body:
            await self._discard(int(said[:20]), receive)
            raise self._too_large(f"{int(said[:20]):,}")
        message = await receive()
        if message["type"] == "http.request" and not message.get("more_body"):
            return self._within(message.get("body", b""))
        parts = [message.get("body", b"")]
        size = len(parts[0])
        try:
            async with asyncio.timeout(self.limits.body_s):
                while message.get("more_body"):
                    message = await receive()
                    parts.append(message.get("body", b""))
                    size += len(parts[-1])
                    if size > self.limits.body:
                        raise self._too_large("more")
        except TimeoutError:
            raise Refused(408, "too slow", f"{size:,} bytes of the body came in {self.limits.body_s:g} s") from None
        if message["type"] == "http.disconnect":
            raise Refused(400, "malformed", "the body ended early")
        return b"".join(parts)

    async def _discard(self, size: int, receive: Any) -> None:
        """Read on and keep nothing: a client that is cut off while it sends does not read why. Not for ever."""
        if size > 8 * self.limits.body:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(self.limits.body_s):
                while (message := await receive()).get("more_body") and message["type"] == "http.request":
                    pass

    def _within(self, body: bytes) -> bytes:
        if len(body) > self.limits.body:
            raise self._too_large(f"{len(body):,}")
        return body

    def _too_large(self, came: str) -> Refused:
        return Refused(413, "too large", f"the body is too large; came: {came} bytes; needed: at most "
                                         f"{self.limits.body:,}")  # fmt: skip


_JSON: Headers = [(b"content-type", b"application/json")]


def _headers_of(error: Refused) -> Headers:
    if error.status in (408, 413):  # what is left of the body is not worth reading
        return [*_JSON, (b"connection", b"close")]
    return [*_JSON, (b"retry-after", b"1")] if error.status == 429 else _JSON


def _error(message: str) -> bytes:
    return json.dumps({"error": message}).encode()


async def _send(send: Any, status: int, body: bytes, headers: Headers) -> None:
    length = (b"content-length", str(len(body)).encode())
    await send({"type": "http.response.start", "status": status, "headers": [*headers, length]})
    await send({"type": "http.response.body", "body": body})


_INFER = re.compile(r"/v2/models/([^/]+)/infer")


class _Application(FastAPI):  # type: ignore[misc]
    """FastAPI with one route before all of its own: what it puts around a request takes as long as a small model."""

    def __init__(self, server: _Server) -> None:
        super().__init__(title="gradlab", lifespan=server.living, docs_url=None, redoc_url=None, openapi_url=None)
        self.server = server

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request, as ASGI has it."""
        if scope["type"] == "http" and scope["method"] == "POST":
            path = scope["path"].removeprefix(scope.get("root_path", ""))
            if (found := _INFER.fullmatch(path)) is not None:
                await self.server.infer(found[1], scope, receive, send)
                return
        await super().__call__(scope, receive, send)


def _routes(application: FastAPI, server: _Server) -> None:
    async def not_so(name: str) -> None:
        raise HTTPException(405, "Method Not Allowed", {"Allow": "POST"})

    async def server_document() -> dict[str, Any]:
        return {"name": "gradlab", "version": core.__version__, "extensions": ["binary_tensor_data"]}

    async def live() -> dict[str, bool]:
        return {"live": True}

    async def ready() -> JSONResponse:
        return JSONResponse({"ready": server.is_ready}, 200 if server.is_ready else 503)

    async def model_document(name: str) -> dict[str, Any]:
        return server.model(name).document()

    async def model_ready(name: str) -> JSONResponse:
        found = server.model(name)
        return JSONResponse({"name": found.name, "ready": server.is_ready}, 200 if server.is_ready else 503)

    async def metrics() -> PlainTextResponse:
        return PlainTextResponse(server.metrics.text(), media_type="text/plain; version=0.0.4")

    async def refused(request: Request, error: Refused) -> JSONResponse:
        server.metrics.refused("", error.reason)
        return JSONResponse({"error": error.message}, error.status)

    async def other(request: Request, error: HTTPException) -> JSONResponse:
        server.metrics.refused("", "not found")
        said = f"{request.method} {request.url.path[:200]}: {error.detail}"
        return JSONResponse({"error": said}, error.status_code, headers=error.headers)

    application.add_api_route("/v2/models/{name}/infer", not_so, methods=["GET", "HEAD", "PUT", "DELETE", "PATCH"])
    for path, answer in (("/v2", server_document), ("/v2/health/live", live), ("/v2/health/ready", ready),
                         ("/v2/models/{name}", model_document), ("/v2/models/{name}/ready", model_ready),
                         ("/metrics", metrics)):  # fmt: skip
        application.add_api_route(path, answer, methods=["GET"])
    application.add_exception_handler(Refused, refused)  # type: ignore[arg-type]
    application.add_exception_handler(HTTPException, other)  # type: ignore[arg-type]
