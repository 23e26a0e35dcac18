"""What time is weighed against: who stays on the front, and what a session refuses to weigh."""

from __future__ import annotations

import math

import pytest

from triton_kernels import tune
from triton_kernels.tune.fronts import Weighed, figure_of, front, refuse
from triton_kernels.tune.replay import replayed


def test_who_stays_on_the_front() -> None:
    def of(*pairs: tuple[float, float]) -> list[tuple[float, float]]:
        return [(w.ratio, w.figure) for w in front([Weighed({"B": k}, *p) for k, p in enumerate(pairs)])]

    assert of((1.0, 2.0), (2.0, 1.0), (2.0, 2.0), (3.0, 3.0)) == [(1.0, 2.0), (2.0, 1.0)]
    assert of((1.0, 2.0), (1.0, 1.0)) == [(1.0, 1.0)]  # as quick, and better
    assert of((2.0, 1.0), (1.0, 1.0)) == [(1.0, 1.0)]
    assert of((math.nan, 0.0), (1.0, 1.0)) == [(1.0, 1.0)]
    assert of() == []


@pytest.mark.parametrize(("objective", "kind", "said"), [
    ("energy", "static", "energy is read where kernels run, on a processor or a GPU; here configs are measured by"),
    ("speed", "cuda", "objective 'speed' is none that is known: there are time, accuracy, memory, energy"),
    ("accuracy", "static", "errors are measured where kernels run"),
    ("memory", "cpu", "shared memory is a GPU's, and this kernel is measured on 'cpu'"),
])  # fmt: skip
def test_what_is_not_weighed(objective: str, kind: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        refuse(objective, kind)
    for known, where in (("time", "replay"), ("accuracy", "cpu"), ("memory", "static"), ("accuracy", "cuda")):
        refuse(known, where)


def test_what_stands_beside_a_time() -> None:
    assert figure_of("accuracy", 0.25, {"shared_bytes": 64}) == 0.25
    assert figure_of("memory", 0.25, {"shared_bytes": 64}) == 64.0
    assert math.isnan(figure_of("memory", 0.25, {}))
    assert math.isnan(figure_of("accuracy", None, {}))
    assert figure_of("energy", None, {"energy_mj": 3.5, "shared_bytes": 64}) == 3.5
    assert math.isnan(figure_of("energy", None, {"shared_bytes": 64}))


def test_a_session_gives_its_front(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    found = tune.run("softmax_f32", "64x256", "float32", budget=None, evaluations=6, objective="accuracy")
    assert found.objective == "accuracy"
    assert 1 <= len(found.front) <= 6
    assert [w.ratio for w in found.front] == sorted(w.ratio for w in found.front)
    figures = [w.figure for w in found.front]
    assert figures == sorted(figures, reverse=True)
    assert all(0.0 <= figure <= 1.0 for figure in figures)
    assert tune.run(replayed({1: 1.0}), budget=None).front == ()
    with pytest.raises(ValueError, match="errors are measured where kernels run"):
        tune.run(replayed({1: 1.0}), objective="accuracy")
