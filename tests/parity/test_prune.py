"""`nn.utils.prune` against PyTorch: masks, weights, gradients, names in the state, and how mistakes end."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import core

torch = pytest.importorskip("torch")
pytest.importorskip("torch.nn.utils.prune")  # torch does not import it by itself

WEIGHT = np.random.default_rng(0).normal(size=(4, 6)).astype("f")
SCORES = np.random.default_rng(1).normal(size=(4, 6)).astype("f")


def layer(lib: Any) -> Any:
    m = lib.nn.Linear(6, 4)
    with lib.no_grad():
        m.weight.copy_(lib.tensor(WEIGHT))
        m.bias.copy_(lib.tensor([0.3, -0.1, 0.2, -0.4]))
    return m


def seeded(lib: Any) -> Any:
    core.manual_seed(3, kind="torch") if lib is core else torch.manual_seed(3)
    return layer(lib)


def state(m: Any) -> Any:
    """What the module has, and what one pass gives its parameters."""
    lib = core if isinstance(m, core.nn.Module) else torch
    m(lib.ones(2, 6)).square().sum().backward()
    return {
        "state": {k: v.numpy().tolist() for k, v in m.state_dict().items()},
        "weight": m.weight.detach().numpy().tolist(),
        "grads": {k: np.round(p.grad.numpy(), 4).tolist() for k, p in m.named_parameters()},
        "hooks": [type(h).__name__ for h in m._forward_pre_hooks.values()],
        "pruned": lib.nn.utils.prune.is_pruned(m),
    }


def twice(p: Any, m: Any, lib: Any) -> Any:
    p.l1_unstructured(m, "weight", 5)
    p.ln_structured(m, "weight", 1, 2, 0)
    p.l1_unstructured(m, "weight", 0.5)
    p.ln_structured(m, "weight", 2, float("inf"), 1)
    p.random_unstructured(m, "weight", 2)
    return p.random_structured(m, "weight", 1, 1)


PRUNINGS = {
    "identity": lambda p, m, lib: p.identity(m, "weight"),
    "l1": lambda p, m, lib: p.l1_unstructured(m, "weight", 7),
    "l1 share": lambda p, m, lib: p.l1_unstructured(m, "weight", 0.3),
    "nothing": lambda p, m, lib: p.l1_unstructured(m, "weight", 0),
    "l1 by scores": lambda p, m, lib: p.l1_unstructured(m, "weight", 7, importance_scores=lib.tensor(SCORES)),
    "random": lambda p, m, lib: p.random_unstructured(m, "weight", 0.5),
    "random rows": lambda p, m, lib: p.random_structured(m, "weight", 2, 0),
    "l2 rows": lambda p, m, lib: p.ln_structured(m, "weight", 2, 2, 0),
    "l1 columns": lambda p, m, lib: p.ln_structured(m, "weight", 0.5, 1, -1),
    "by scores": lambda p, m, lib: p.ln_structured(m, "weight", 2, 2, 0, importance_scores=lib.tensor(SCORES)),
    "mask": lambda p, m, lib: p.custom_from_mask(m, "weight", lib.tensor(SCORES > 0)),
    "bias": lambda p, m, lib: p.l1_unstructured(m, "bias", 2),
    "six times": twice,
    "removed": lambda p, m, lib: p.remove(p.l1_unstructured(m, "weight", 7), "weight"),
}  # fmt: skip


@pytest.mark.parametrize("name", PRUNINGS)
def test_prunings(name: str) -> None:
    mine, theirs = (state(PRUNINGS[name](lib.nn.utils.prune, seeded(lib), lib)) for lib in (core, torch))
    assert mine == theirs


@pytest.mark.parametrize("scored", [False, True])
def test_global(scored: bool) -> None:
    found = []
    for lib in (core, torch):
        p, a, b = lib.nn.utils.prune, layer(lib), layer(lib)
        p.l1_unstructured(b, "weight", 3)
        scores = {(a, "weight"): lib.tensor(SCORES)} if scored else None
        p.global_unstructured([(a, "weight"), (b, "weight")], p.L1Unstructured, scores, amount=0.4)
        found.append([state(a), state(b)])
    assert found[0] == found[1]


MISTAKES = {
    "share": lambda p, m, o: p.l1_unstructured(m, "weight", 1.5),
    "negative": lambda p, m, o: p.random_unstructured(m, "weight", -1),
    "text": lambda p, m, o: p.l1_unstructured(m, "weight", "a"),
    "too many": lambda p, m, o: p.l1_unstructured(m, "weight", 100),
    "too many rows": lambda p, m, o: p.ln_structured(m, "weight", 7, 2, 0),
    "dimension": lambda p, m, o: p.ln_structured(m, "weight", 1, 2, 5),
    "one dimension": lambda p, m, o: p.ln_structured(m, "bias", 1, 2, 0),
    "not pruned": lambda p, m, o: p.remove(m, "weight"),
    "no such name": lambda p, m, o: p.l1_unstructured(m, "nope", 1),
    "mask": lambda p, m, o: p.custom_from_mask(m, "weight", o(3)),
    "scores": lambda p, m, o: p.l1_unstructured(m, "weight", 2, importance_scores=o(3)),
    "scores of all": lambda p, m, o: p.global_unstructured([(m, "weight")], p.L1Unstructured, 3, amount=2),
    "structured": lambda p, m, o: p.global_unstructured([(m, "weight")], p.LnStructured, amount=2, n=2),
    "container": lambda p, m, o: p.PruningContainer().add_pruning_method(3),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_end_alike(name: str) -> None:
    said = []
    for lib in (core, torch):
        m = layer(lib)
        with pytest.raises(Exception) as caught:  # noqa: PT011 - its class is what is compared
            MISTAKES[name](lib.nn.utils.prune, m, lib.ones)
        said.append((type(caught.value), str(caught.value).replace("torch.", "core.")[:45], sorted(m.state_dict())))
    assert said[0] == said[1]
