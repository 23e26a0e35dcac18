"""A whole training, written once for both libraries: the same seed gives the same losses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import core  # noqa: E402


def losses(t: Any, dtype: str, **seed: Any) -> list[float]:
    t.manual_seed(0, **seed)
    model = t.nn.Sequential(t.nn.Linear(8, 32), t.nn.GELU(), t.nn.LayerNorm(32), t.nn.Linear(32, 3)).to(
        getattr(t, dtype)
    )
    x = t.rand(200, 8, dtype=getattr(t, dtype))
    train, held_out = t.utils.data.random_split(t.utils.data.TensorDataset(x, x.sum(1).long() % 3), [0.8, 0.2])
    loader = t.utils.data.DataLoader(train, batch_size=32, shuffle=True)
    optimizer = t.optim.AdamW(model.parameters(), lr=1e-2)
    schedule = t.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, total_steps=5 * len(loader))
    loss_of, out = t.nn.CrossEntropyLoss(label_smoothing=0.1), []
    for epoch in range(5):
        model.train()
        for k, (xs, ys) in enumerate(loader):
            loss = loss_of(model(xs), ys)
            optimizer.zero_grad()
            loss.backward()
            t.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            if (epoch, k) != (4, len(loader) - 1):
                schedule.step()
            out.append(loss.item())
        model.eval()
        with t.no_grad():
            out += [loss_of(model(xs), ys).item() for xs, ys in t.utils.data.DataLoader(held_out, batch_size=50)]
    return out


@pytest.mark.parametrize(("dtype", "rtol"), [("float64", 1e-9), ("float32", 1e-4)])
def test_training_goes_the_same_way(dtype: str, rtol: float) -> None:
    mine, theirs = losses(core, dtype, kind="torch"), losses(torch, dtype)
    assert len(mine) == 30
    np.testing.assert_allclose(mine, theirs, rtol=rtol)
