"""A third device in one file, as anybody can write one: its memory is NumPy's, its one kernel is a softmax.

Run by test_third_device.py in a process of its own; it prints what it saw, as JSON.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

import core
from core.backends import DeviceBackend, Kernel, Row, add
from core.backends.reference import Reference

ran: list[str] = []


class Fast:
    """The toy's own kernels: what it adds to the reference."""

    name = "toy"

    def map(self, program: Any, kind: Any) -> Kernel | str:
        return "no elementwise kernels"

    def rows(self, name: str) -> tuple[Row, ...]:
        return (Row("softmax_toy", "toy", self.softmax, lambda x, dim: None),) if name == "softmax" else ()

    def absent(self, name: str) -> str:
        return "not written"

    def softmax(self, x: Any, dim: int) -> Any:
        ran.append("softmax_toy")
        e = np.exp(x - x.max(dim, keepdims=True))
        return e / e.sum(dim, keepdims=True)


class Toy(DeviceBackend):
    def check(self, where: Any) -> Any:
        if where.index not in (None, 0):
            raise RuntimeError(f"there is one toy, not {where}")
        return core.device("toy", 0)


add(Toy("toy", lambda: (Fast(), Reference("NumPy", np))))


class Seen(core.events.observe.Observer):
    def op(self, event: core.events.observe.OpEvent) -> None:
        kernels.append((event.op, event.kernel, event.backend))


kernels: list[Any] = []
x = core.tensor([[1.0, 2.0, 3.0]], device="toy", requires_grad=True)
with core.events.observe.observing(Seen()):
    y = (x * 2).softmax(1)
y[0, 2].log().neg().backward()
same = core.tensor([[1.0, 2.0, 3.0]], requires_grad=True)
(same * 2).softmax(1)[0, 2].log().neg().backward()
core.manual_seed(0)
model = core.nn.Sequential(core.nn.Linear(3, 4), core.nn.ReLU(), core.nn.Linear(4, 1)).to("toy")
optimizer = core.optim.Adam(model.parameters(), lr=0.1)
losses = []
for _ in range(20):
    optimizer.zero_grad()
    loss = (model(core.ones(5, 3, device="toy")) - 1).square().mean()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
said = ""
try:
    core.ones(2, device="toy") + core.ones(2)
except RuntimeError as error:
    said = str(error).splitlines()[0]
print(json.dumps({
    "device": str(y.device), "ran": ran, "kernels": kernels, "close": bool(core.allclose(x.grad.cpu(), same.grad)),
    "learned": losses[-1] < losses[0] / 2, "random": str(core.randn(3, device="toy").device), "mixed": said,
    "moved": [str(x.cpu().device), str(core.ones(1).to("toy").device), x.detach().cpu().tolist()],
}))  # fmt: skip
