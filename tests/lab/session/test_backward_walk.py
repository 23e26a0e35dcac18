"""Walking backward, and breakpoints on gradients."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest

import core
import lab


def test_every_node_with_what_came_in_and_went_out() -> None:
    x, w = core.ones(4, 3), core.full((3, 2), 0.5, requires_grad=True)
    steps = lab.walk((x @ w).tanh().sum())
    assert [s.node for s in steps] == ["SumBackward0", "TanhBackward0", "MatmulBackward0"]
    assert steps[0].incoming[0][0] == ()
    assert steps[0].outgoing[0][0] == (4, 2)
    assert steps[2].outgoing[0] is None
    shape, stats = steps[2].outgoing[1]
    assert (shape, round(stats.mean, 5)) == ((3, 2), round(float(w.grad.mean()), 5))
    assert "MatmulBackward0" in str(steps)
    assert "(x @ w)" in steps[2].code.replace("x @ w", "(x @ w)")
    assert steps.next() is steps[0]
    assert steps.next() is steps[1]
    assert steps.back() is steps[0]
    assert steps.back() is steps[0]


def test_where_the_first_nan_comes_from() -> None:
    x = core.zeros(3, requires_grad=True)
    steps = lab.walk((x * x).sqrt().sum())
    bad = steps.first(lambda step: step.nonfinite)
    assert bad is not None
    assert bad.node == "SqrtBackward0"
    with pytest.raises(TypeError, match="without a graph"):
        lab.walk(core.ones(3))


def test_a_breakpoint_on_a_gradient(monkeypatch: Any, capsys: Any) -> None:
    stops = []
    monkeypatch.setattr(
        sys, "breakpointhook", lambda *args: stops.append(sys._getframe(1).f_locals["gradient"].tolist())
    )
    x = core.tensor([1.0, 2.0], requires_grad=True)
    y = x * 2
    y.breakpoint()
    x.breakpoint(when=lambda g: g.isnan().any())
    (y * y).sum().backward()
    assert stops == [[4.0, 8.0]]
    said = capsys.readouterr().err
    assert "the output of MulBackward0" in said
    assert "min 4, max 8, mean 6" in said
    with pytest.raises(RuntimeError, match="doesn't require gradient"):
        core.ones(2).breakpoint()


def test_a_step_says_where_its_gradients_go() -> None:
    x, w = core.ones(2, 3, requires_grad=True), core.ones(3, 1, requires_grad=True)
    steps = lab.walk((x.exp() @ w).sum())
    product = next(step for step in steps if step.node == "MatmulBackward0")
    assert product.to == ["ExpBackward0", ".grad"]
    assert "→ ExpBackward0" in str(product)
    assert "in  scalar: 1.00\n" in str(steps[0])


def test_the_debugger_of_a_kernel_without_a_client_is_passed_over(monkeypatch: Any) -> None:
    from types import SimpleNamespace

    from core.autograd import stopping

    def debugpy_breakpointhook() -> None: ...

    monkeypatch.delenv("PYTHONBREAKPOINT", raising=False)
    monkeypatch.setattr(sys, "breakpointhook", sys.__breakpointhook__)
    assert not stopping._chosen()
    monkeypatch.setattr(sys, "breakpointhook", debugpy_breakpointhook)
    for connected in (False, True):
        monkeypatch.setitem(sys.modules, "debugpy", SimpleNamespace(is_client_connected=lambda c=connected: c))
        assert stopping._chosen() is connected
    monkeypatch.setattr(sys, "breakpointhook", lambda: None)
    assert stopping._chosen()


def test_up_leads_to_the_line_that_called_backward(tmp_path: Any) -> None:
    file = tmp_path / "stops.py"
    lines = [
        "import core",
        "x = core.ones(2, requires_grad=True)",
        "y = x.exp()",
        "y.breakpoint()",
        "y.sum().backward()",
    ]
    file.write_text("\n".join([*lines, "print('went on', x.grad.tolist())"]))
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONBREAKPOINT"}
    environment["PYTHONPATH"] = os.pathsep.join(sys.path)
    done = subprocess.run(
        [sys.executable, str(file)], input="p gradient\nup\np len(y)\nc\n", capture_output=True, text=True,
        env=environment, check=True,
    )  # fmt: skip
    assert "(Pdb) tensor([1., 1.])" in done.stdout
    assert "stops.py(5)<module>()\n-> y.sum().backward()\n(Pdb) 2\n" in done.stdout
    assert "went on" in done.stdout
