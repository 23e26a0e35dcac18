"""Configs that one launch alone cannot judge are judged by what the whole program returns, no line being changed."""

from __future__ import annotations

import numpy as np
import pytest

from triton_kernels import tune
from triton_kernels.tune.constants import constants_of, replaced
from triton_kernels.tune.problem import Unknown
from triton_kernels.tune.worker import Here

from . import whole_programs as programs
from .test_capture import floats, why


def problem_of(function, x, name="partial_sums", **options):
    """The problem of a kernel of a program, which is run again."""
    with tune.capture() as seen:
        function(x)
    return seen.problem(name, target="sm_90", program=lambda: function(x), **options)


def values(problem, name):
    return next((t.values for t in problem.space.tunables if t.name == name), ())


@pytest.mark.by_turns
@pytest.mark.parametrize(
    ("function", "blocks"),
    [
        (programs.total, (64, 128, 256)),
        (programs.total_by_default, (64, 128, 256)),
        (programs.total_by_module, (32, 64, 128)),
        (programs.total_with_room, (64, 128, 256)),
    ],
)
def test_partial_sums_are_judged_by_what_is_made_of_them(function, blocks):
    x = floats(1000)
    problem = problem_of(function, x)
    assert values(problem, "BLOCK") == blocks
    assert f"judged by what the whole program returns: BLOCK={blocks[0]}; BLOCK={blocks[2]}" in " ".join(problem.notes)
    for block in blocks:
        assert not why(problem, {"BLOCK": block})
    with tune.capture() as seen:
        assert function(x) == pytest.approx(x.sum(), rel=1e-3)
    assert seen.launches[0].call.arguments["BLOCK"] == problem.space.default["BLOCK"]  # what it was


@pytest.mark.by_turns
def test_two_kernels_are_judged_together():
    problem = problem_of(programs.Gradient.of_bias, floats(100, 20), "column_sums")
    assert values(problem, "ROWS") == (8, 16, 32)
    assert programs.Sizes.ROWS == 16
    call, _ = (
        problem.measure.own[("COLUMNS", 32), ("ROWS", 8)]
        if values(problem, "COLUMNS")
        else problem.measure.own[(("ROWS", 8),)]
    )
    assert call.grid == (13,)
    assert dict(call.views())["parts"].shape == (13, 20)


def test_what_is_wrong_by_the_whole_program_is_refused():
    problem = problem_of(programs.total_wrong_if_halved, floats(1000), "wrong_if_halved")
    assert values(problem, "BLOCK") == (128, 256)


def test_what_an_earlier_run_has_left_in_memory_is_no_result():
    stock = np.empty
    problem = problem_of(programs.copied, floats(1000), "half_if_halved")
    assert values(problem, "BLOCK") == (128, 256)
    assert np.empty is stock


def test_without_the_program_it_is_said_that_each_launch_was_judged_alone():
    with tune.capture() as seen:
        programs.total(floats(1000))
    problem = seen.problem(target="sm_90")
    assert not values(problem, "BLOCK")
    assert "each launch was judged alone; where the program allots" in " ".join(problem.notes)


@pytest.mark.by_turns
def test_such_a_kernel_is_tuned():
    result = tune.run(problem_of(programs.total, floats(1000)), evaluations=12, budget=None)
    assert result.verdict == "estimate"
    assert result.evaluations == 12


def test_a_config_that_the_program_was_right_with_has_its_own_launch():
    problem = problem_of(programs.total, floats(1000))
    measure = Here(problem.check).measure
    config = {**problem.space.default, "BLOCK": 64}
    call = measure._changed(0, config)
    assert (call.grid, call.arguments["BLOCK"], dict(call.views())["parts"].shape) == ((16,), 64, (16,))
    launched = []

    class Kernel:
        def __getitem__(self, grid):
            return lambda **named: launched.append((grid, named["parts"].data_ptr()))

    measure._kernel = Kernel()
    for each in (config, problem.space.default, {**config, "num_warps": 8}):
        measure._call(each)
    (small, here), (large, there), (_, again) = launched
    assert (small, large) == ((16,), (8,))
    assert here == again != there  # timed in memory of its own


@pytest.mark.by_turns
def test_listed_configs_are_judged_by_the_program_where_a_launch_alone_is_wrong():
    configs = {"BLOCK": (128, 64, 256)}
    problem = problem_of(programs.total, floats(1000), configs=configs)
    assert not any(why(problem, {"BLOCK": block}) for block in configs["BLOCK"])


@pytest.mark.parametrize(
    ("program", "said"),
    [
        (lambda x: lambda: programs.total(x) and None, "returns nothing that configs can be judged by. Remedy: "),
        (lambda x: lambda: float(next(CHANCE)) + programs.total(x), "does not return the same twice"),
        (lambda x: lambda: x, "the program does not launch it. Remedy: the function that was captured"),
        (lambda x: lambda: programs.total(x[:0].missing), "cannot be run again: it fails with AttributeError"),
    ],
)
def test_programs_that_nothing_can_be_judged_by_are_refused(program, said):
    x = floats(300)
    with tune.capture() as seen:
        programs.total(x)
    with pytest.raises(Unknown, match=said):
        seen.problem(target="sm_90", program=program(x))


CHANCE = iter(range(100))


@pytest.mark.by_turns
def test_random_numbers_are_alike_in_every_run():
    def program():
        return programs.total(np.random.standard_normal(300).astype(np.float32))  # noqa: NPY002

    with tune.capture() as seen:
        program()
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    problem = seen.problem(target="sm_90", program=program)
    assert values(problem, "BLOCK") == (64, 128, 256)
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002


def test_constants_are_found_and_put_back():
    with tune.capture() as seen:
        programs.total(floats(300)), programs.total_by_default(floats(299))
        (
            programs.total_by_module(floats(300)),
            programs.Gradient.of_bias(floats(20, 20)),
            programs.total_with_room(floats(300)),
        )
    found = [constants_of(launch, {"BLOCK": 1, "ROWS": 1}) for launch in seen]
    kinds = [[(c.kind, c.name, c.value) for places in each.values() for c in places] for each in found]
    assert kinds[:4] == [[("local", "BLOCK", 128)], [("default", "block", 128)], [("owned", "CHUNK", 64)],
                         [("owned", "ROWS", 16)]]  # fmt: skip
    assert kinds[4:] == [[], []]  # of added_up, and of a number that stands in the launch
    code = programs.total.__code__
    with replaced(found[0], {"BLOCK": 32}), tune.capture() as again:
        programs.total(floats(300))
    assert again.launches[0].call.grid == (10,)
    assert programs.total.__code__ is code
