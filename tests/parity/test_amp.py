"""Training under autocast with a GradScaler beside PyTorch's: the same weights and steps, an overflow on the way."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import core  # noqa: E402


def _model(lib: Any, kind: str) -> Any:
    nn = lib.nn
    if kind == "mlp":
        return nn.Sequential(
            nn.Linear(8, 32), nn.LayerNorm(32), nn.GELU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 4)
        )
    return nn.Sequential(nn.Unflatten(1, (1, 2, 4)), nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(),
                         nn.Flatten(), nn.Linear(64, 4))  # fmt: skip


def _train(lib: Any, kind: str, low: str, weights: dict[str, np.ndarray], steps: int = 36) -> tuple[Any, ...]:
    rng = np.random.default_rng(1)
    model = _model(lib, kind)
    model.load_state_dict({k: lib.tensor(v) for k, v in weights.items()})
    optimizer = lib.optim.AdamW(model.parameters(), lr=3e-3)
    scaler = lib.amp.GradScaler("cpu", init_scale=2.0**10, growth_interval=10)
    losses, scales, dtypes = [], [], set()
    for step in range(steps):
        x = rng.normal(size=(32, 8)).astype(np.float32)
        y = (x[:, :4].argmax(1)).astype(np.int64)
        optimizer.zero_grad()
        with lib.autocast("cpu", dtype=getattr(lib, low)):
            out = model(lib.tensor(x))
            loss = lib.nn.functional.cross_entropy(out, lib.tensor(y))
        dtypes |= {str(out.dtype).rpartition(".")[2], str(loss.dtype).rpartition(".")[2]}
        scaler.scale(loss).backward()
        if step == 15:
            next(model.parameters()).grad[0] = float("inf")
        scaler.unscale_(optimizer)
        lib.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        losses.append(float(loss.detach()))
        scales.append(scaler.get_scale())
    dtypes |= {str(p.grad.dtype).rpartition(".")[2] for p in model.parameters()}
    return losses, scales, sorted(dtypes), scaler.state_dict()


@pytest.mark.parametrize("kind", ["mlp", "cnn"])
@pytest.mark.parametrize("low", ["bfloat16", "float16"])
def test_a_training_run(kind: str, low: str) -> None:
    torch.manual_seed(0)
    weights = {k: v.numpy() for k, v in _model(torch, kind).state_dict().items()}
    ours, theirs = _train(core, kind, low, weights), _train(torch, kind, low, weights)
    assert ours[1:] == theirs[1:]  # the scale at every step, the dtypes, the scaler's state
    assert ours[1][15] == ours[1][14] / 2
    tolerance = 0.03 if low == "bfloat16" else 0.006
    np.testing.assert_allclose(ours[0][:10], theirs[0][:10], rtol=tolerance)
    np.testing.assert_allclose(ours[0], theirs[0], rtol=3 * tolerance, atol=0.01)
    assert ours[0][-1] < 0.9 * ours[0][0]
