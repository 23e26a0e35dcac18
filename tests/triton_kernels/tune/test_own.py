"""A user's own kernel: its text for workers, its space, wrong configs that never win, and every error."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import triton
import triton.language as tl

from triton_kernels import tune
from triton_kernels.tune import calls, lookup, stored
from triton_kernels.tune.own import made, own_problem, space_of, text_of
from triton_kernels.tune.problem import Unknown
from triton_kernels.tune.sources import source_of
from triton_kernels.tune.store import Store

HALF = tl.constexpr(0.5)


@triton.jit
def halved(x):
    return x * HALF


@triton.jit
def scale_kernel(x, out, n, SKIP: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = halved(tl.load(x + i, mask=i < n))
    if SKIP:
        v = tl.where(i % BLOCK == BLOCK - 1, 0.0, v)
    tl.store(out + i, v, mask=i < n)


X = np.random.default_rng(0).standard_normal(700).astype(np.float32)
ARGUMENTS = {"x": X, "out": np.empty_like(X), "n": X.size}


def grid(config):
    return (-(-X.size // config["BLOCK"]),)


def half(x, out, n):
    return x / 2


def problem(**changes):
    kernel = changes.pop("kernel", scale_kernel)
    arguments = changes.pop("arguments", ARGUMENTS)
    configs = {"SKIP": (0, 1), "BLOCK": (64, 256), "num_warps": (4, 1)}
    return own_problem(kernel, arguments, **{"grid": grid, "reference": half, "configs": configs, **changes})


def test_its_text_holds_what_it_calls_and_reads():
    text = text_of(scale_kernel)
    assert "import triton.language as tl\nHALF = tl.constexpr(0.5)\n" in text
    assert text.index("def halved") < text.index("def scale_kernel")
    assert made(text, "scale_kernel").fn.__name__ == "scale_kernel"


@pytest.mark.by_turns
def test_configs_that_are_wrong_on_purpose_do_not_win(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    found = tune.run(problem(target="sm_80"), budget=None)
    assert found.verdict == "estimate"
    assert found.evaluations == 8
    assert all(place.config["SKIP"] == 0 for place in found.top)
    assert found.best.facts["registers"] > 0
    wrong = [text for text, _ in found.reasons if text.startswith("correctness")]  # each by itself
    assert len(wrong) == 4 - found.merged // 2
    assert all("SKIP=1" in text and "of 700 results are wrong; the worst at (" in text for text in wrong)
    assert "give the right answer in Triton's interpreter" in " ".join(found.notes)


@triton.jit
def bad_kernel(x, out, n, BAD: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n)
    if BAD == 1:
        tl.store(out + i, v * 0.5)  # nothing keeps the last block within the array
    elif BAD == 2:
        tl.store(out + i, v.half_of_it, mask=i < n)
    elif BAD == 3:
        k = 0
        while k < n:
            k += tl.load(x + i * 0, mask=i < 0, other=0.0).to(tl.int32).sum() * 0
        tl.store(out + i, v * 0.5, mask=i < n)
    else:
        tl.store(out + i, v * 0.5, mask=i < n)


@pytest.mark.by_turns
def test_configs_that_stray_raise_hang_or_do_not_fit_are_named(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    configs = [{"BAD": bad, "BLOCK": 64, "num_warps": 4} for bad in range(4)] + [
        {"BAD": 0, "BLOCK": 64, "num_warps": 64}
    ]
    found = tune.run(problem(kernel=bad_kernel, configs=configs, target="sm_90"), budget=None)
    assert found.best.config == configs[0]
    said = [text for text, _ in found.reasons]
    stray, raised, hung, large = (
        next(t for t in said if t.startswith(f"{kind}: ")) for kind in ("runtime", "compile", "timeout", "constraints")
    )
    assert "out-of-bounds store of 4 bytes: 4 of 64 unmasked lanes in program (10, 0, 0); of out" in stray
    assert "half_of_it" in raised
    assert "running had no result after" in hung
    assert "asks for 2,048 threads, a block of sm_90 may have 1,024" in large


@pytest.mark.by_turns
def test_where_all_but_the_default_are_wrong_it_stays(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    only = [{"SKIP": 0, "BLOCK": 256, "num_warps": 4}]
    only += [{"SKIP": 1, "BLOCK": b, "num_warps": w} for b in (16, 32, 64, 128) for w in (1, 4)]
    found = tune.run(problem(configs=only), budget=None)
    assert found.best.config == only[0]
    assert (
        found.rejected["correctness"] == len({place for place, _ in found.reasons}) or found.rejected["correctness"] > 5
    )


def test_the_space_is_inferred_or_given():
    inferred = space_of(scale_kernel, {**ARGUMENTS, "SKIP": 0})
    assert inferred.names == ("BLOCK", "num_warps")
    given = space_of(scale_kernel, {}, [triton.Config({"BLOCK": 64}, num_warps=2), triton.Config({"BLOCK": 128})])
    assert given.default == {"BLOCK": 64, "num_warps": 2, "num_stages": 3}


@pytest.mark.by_turns
def test_scripts_give_the_kernel_itself(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    found = tune.run(scale_kernel, {**ARGUMENTS, "SKIP": 0}, grid=grid, reference=half,
                     configs={"BLOCK": (64, 128), "num_warps": (4,)}, budget=None)  # fmt: skip
    assert found.kernel == "scale_kernel"
    assert found.shape == (700,)


CONFIGS = {"SKIP": (0,), "BLOCK": (64, 256), "num_warps": (4, 1)}


def test_launches_take_what_was_stored_for_their_shape(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setattr(stored, "device", lambda: "a GPU")
    lookup.forget()
    kernel = tune.auto(CONFIGS)(scale_kernel)
    seen = []

    def programs(config):
        seen.append(config)
        return grid(config)

    out = np.empty_like(X)
    kernel[programs](X, out, n=X.size)
    np.testing.assert_array_equal(out, X / 2)
    key = {"kernel": "scale_kernel", "source": source_of(scale_kernel), "device": "a GPU", "shape": [700],
           "dtype": "float32", "mode": calls.mode("cuda", {"x": X, "out": X, "n": X.size})}  # fmt: skip
    with Store() as store:
        best = {"SKIP": 0, "BLOCK": 256, "num_warps": 1}
        store.win(key, store.begin(key, {}, "x"), {"config": best, "ratio": 0.5, "low": 0.5, "high": 0.5})
    kernel[programs](X, out, n=X.size)
    kernel[programs](X[:600].copy(), out[:600].copy(), n=600)  # not checked there
    first = {"SKIP": 0, "BLOCK": 64, "num_warps": 4}
    assert seen == [first, best, first]
    anywhere = tune.auto(CONFIGS, any_shape=True)(scale_kernel)
    assert anywhere.config_for(X[:600].copy(), out, n=600) == best
    assert kernel.config_for(X, X, n=X.size) == first  # in place
    assert kernel.config_for(X, out[:300], n=X.size) == first
    np.testing.assert_array_equal(out, X / 2)
    out[:] = 0
    kernel[grid(first)](X, out, n=X.size)  # a grid that does not follow the config: best would leave most undone
    np.testing.assert_array_equal(out, X / 2)
    with Store() as store:
        store.win(key | {"source": "of another text"}, store.begin(key, {}, "x"),
                  {"config": {**best, "BLOCK": 64}, "ratio": 0.5, "low": 0.5, "high": 0.5})  # fmt: skip
    assert kernel.config_for(X, out, n=X.size)["BLOCK"] == 64  # the default: results of another text do not count
    with pytest.raises(TypeError, match="a launch needs an array"):
        kernel[programs](3)
    with pytest.raises(TypeError, match="with brackets"):
        tune.auto(scale_kernel)
    lookup.forget()


@pytest.mark.parametrize(("changes", "words"), [
    ({"arguments": {**ARGUMENTS, "z": 3}}, "has no argument z; it has x, out, n, SKIP, BLOCK"),
    ({"arguments": {"x": X, "out": X.copy()}}, "wants n: needed in the arguments, or in the configs"),
    ({"reference": lambda x, out, n: {"y": x}}, "the reference gives y; needed: arrays among x, out"),
    ({"reference": lambda x, out, n: x[:3]}, r"the reference gives out of \(3,\), the argument is \(700,\)"),
    ({"arguments": {"x": 1, "out": 2, "n": 3}}, "pointers are NumPy arrays in the arguments, and there is none"),
    ({"target": "sm_7"}, "no target is called sm_7"),
    ({"target": "cuda"}, "no GPU is connected in this process"),
])  # fmt: skip
def test_errors(changes, words):
    with pytest.raises(Unknown, match=words):
        problem(**changes)


def test_times_of_a_pair_are_those_of_its_rounds(monkeypatch):
    """On a GPU; here the rounds are made up."""
    measure = dataclasses.replace(problem().measure, kind="cuda")
    monkeypatch.setattr(
        type(measure), "rounds", lambda self, configs, count, seed: [[k + 0.5] * count for k in configs]
    )
    assert measure.pairs(1, 2, 3) == ([1.5] * 3, [2.5] * 3)
    assert measure.pairs(1, None, 2) == ([1.5] * 2, [])
