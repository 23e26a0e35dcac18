"""What is hard to capture: each function here becomes a program that gives what it gives, on other data and at other
sizes, or is refused with its line. Nothing is silently wrong."""

from __future__ import annotations

import math
import random
import time

import numpy as np
import pytest

import core as torch
from core.export import ExportError, export

F = torch.nn.functional


def numbers(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.tensor(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


class Counting(torch.nn.Module):
    """Counts its calls, and computes with the count."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return x * self.calls


class Remembering(torch.nn.Module):
    """Adds what it saw last time."""

    def __init__(self) -> None:
        super().__init__()
        self.last = torch.zeros(4)

    def forward(self, x):
        y = x + self.last
        self.last = x.mean(0)
        return y


seen: list = []
scale = [1.0]


def branch_on_data(x):
    if x.sum() > 0:
        return x
    return -x


def branch_by_and(x):
    return x if x.sum() > 0 and x.mean() > 0 else -x


def loop_on_data(x):
    while x.abs().max() > 1:
        x = x / 2
    return x


def reads_item(x):
    return x * x.sum().item()


def reads_float(x):
    return x * float(x[0, 0])


def reads_int(x):
    return x[int(x[0, 0].abs()) % 2]


def index_by_tensor_value(x):
    k = x.argmax() % 2
    return [1.0, 2.0][k] * x


def reads_list(x):
    return x + sum(x[0].tolist())


def through_numpy(x):
    return x + torch.from_numpy(np.sin(x.numpy()))


def numpy_function(x):
    return torch.tensor(np.asarray(x).sum()) + x


def tensor_of_tensors(x):
    return torch.tensor([x.sum(), x.mean()])


def random_numbers(x):
    return x + torch.rand(x.shape)


def random_like(x):
    return x + torch.randn_like(x)


def random_in_place(x):
    return torch.empty(4).normal_() + x


def python_random(x):
    return x * random.random()


def clock(x):
    return x * time.perf_counter()


def dropout(x):
    return F.dropout(x, 0.5, True)


def dropout_off(x):
    return F.dropout(x, 0.5, False)


def mask_as_index(x):
    return x[x > 0]


def nonzero(x):
    return x.nonzero().sum() + x


def equal_branch(x):
    return x if torch.equal(x, x.relu()) else x.relu()


def size_as_number(x):
    return x.sum(0) / x.shape[0] + x.shape[0]


def root_of_a_size(x):
    return x / math.sqrt(x.shape[0])


def power_of_a_size(x):
    return x * x.shape[0] ** -0.5 + x.numel()


def half_of_a_size(x):
    return x[: x.shape[0] // 2] * 2


def half_by_division(x):
    return x[: int(x.shape[0] / 2)] * 2


def length(x):
    return x.sum(0) / len(x)


def branch_on_a_size(x):
    return x * 2 if x.shape[0] > 100 else x * 3


def branch_on_a_length(x):
    return x * 2 if len(x) > 100 else x * 3


def branch_on_a_kept_length(x):
    n = len(x)
    if n > 100:
        return x * 2
    return x * 3


def least_of_sizes(x):
    return x[: min(x.shape[0], 50)]


def loop_over_a_size(x):
    y = x[0]
    for k in range(1, x.shape[0]):
        y = y + x[k]
    return y


def loop_over_rows(x):
    return sum(row.exp() for row in x)


def loop_over_columns(x):
    y = 0
    for k in range(x.shape[1]):
        y = y + x[:, k] * k
    return y


def made_by_size(x):
    return torch.zeros(x.shape[0], 3) + torch.ones(x.shape[0], 1) * torch.arange(3)


def positions(x):
    return x + torch.arange(x.shape[0])[:, None] * 0.5


def full_like(x):
    return torch.full_like(x, 2.0) * x + torch.zeros_like(x)


def eye_of_a_size(x):
    return torch.eye(x.shape[0]) @ x


def linspace_of_a_size(x):
    return torch.linspace(0, 1, x.shape[0])[:, None] * x


def triangle(x):
    return torch.tril(torch.ones(x.shape[0], x.shape[0])) @ x


def repeated(x):
    return torch.cat([x, x]).repeat(1, 2)


def flattened(x):
    return x.view(-1), x.reshape(x.shape[0], 2, -1), x.flatten()


def in_place_on_argument(x):
    x.add_(1)
    return x * 2


def in_place_on_view(x):
    y = x.clone()
    y[0].mul_(2)
    y[:, 1] = 7
    return y, y.t()


def in_place_on_view_of_argument(x):
    x[0] += 1
    return x * 2


def view_before_a_write(x):
    y = x * 1
    row = y[0]
    y += 1
    row *= 3
    return row, y


def two_views(x):
    y = x.clone()
    a, b = y[:, :2], y[:, 1:]
    a += 1
    b *= 2
    return a.sum(), b.sum(), y


def views_of_views(x):
    y = x.clone().reshape(-1, 2, 2)
    z = y.transpose(1, 2)[:, 0]
    z.zero_()
    return y, z


def split_and_written(x):
    y = x.clone()
    a, b = y.split(2, 1)
    b.copy_(a)
    return y


def expanded_and_added(x):
    y = torch.zeros(1, 4)
    y = y.expand(x.shape[0], 4).clone()
    y += x
    return y


def masked_fill_in_place(x):
    y = x.clone()
    y.masked_fill_(y < 0, 0.5)
    y[y > 1] = 1.0
    return y


def out_argument(x):
    y = torch.empty(4)
    torch.mul(x[0], 2, out=y)
    return y


def reshaped_in_place(x):
    y = x.clone()
    y.unsqueeze_(0)
    return y * 2


def returns_its_argument(x):
    return x, x[0], x


def returns_a_constant(x):
    return x + 1, torch.tensor([1.0, 2.0]), 3, None, {"a": x.sum()}


def prints(x):
    print("sum", x.sum())
    return x * 2


def formats(x):
    label = f"{x.sum():.3f}"
    return x * len(label)


def grows_a_list(x):
    seen.append(x.sum())
    return x + sum(seen)


def reads_a_changing_number(x):
    scale[0] *= 1.5
    return x * scale[0]


def under_no_grad(x):
    with torch.no_grad():
        y = x * 2
    return y.detach() + x.data


def half_precision(x):
    return (x.half() * 2).float() + x.to(torch.bfloat16).float()


def autocast(x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return x @ x.t()


def integers(x):
    return (x * 10).long() // 3 + x.argmax(1)[:, None] % 2


def sorted_values(x):
    values, places = x.sort(1, descending=True)
    return values, places, x.topk(2, 1).values


def gathered(x):
    return x.gather(1, x.argsort(1)), x[:, [2, 0]], x[torch.arange(x.shape[0]), 1]


def one_hot(x):
    return F.one_hot(x.argmax(1), 4).float() @ x.t()


def gradient(x):
    y = x.clone().requires_grad_()
    (g,) = torch.autograd.grad((y**3).sum(), y)
    return g


def second_gradient(x):
    y = x.clone().requires_grad_()
    (g,) = torch.autograd.grad((y**3).sum(), y, create_graph=True)
    (h,) = torch.autograd.grad(g.sum(), y)
    return h


def mapped(x):
    return torch.func.vmap(lambda row: row.softmax(0).sum() * row)(x)


def where_and_clamp(x):
    return torch.where(x > 0, x, x.clamp(min=-0.5)).nan_to_num()


def windows(x):
    return F.avg_pool1d(x[None], 3, 1, 1)[0] + F.pad(x, (1, 1))[:, :4]


def statistics(x):
    return x.std(0, correction=0), x.var(1, keepdim=True), x.norm(), x.cumsum(0), x.median(1).values


class Squared(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        return 2 * g * ctx.saved_tensors[0]


def own_function(x):
    return Squared.apply(x)


def own_function_and_gradient(x):
    y = x.clone().requires_grad_()
    Squared.apply(y).sum().backward()
    return y.grad


RIGHT = [
    eye_of_a_size, linspace_of_a_size,
    dropout_off, size_as_number, root_of_a_size, power_of_a_size, half_of_a_size, length, loop_over_columns,
    made_by_size, positions, full_like, triangle, repeated, flattened, in_place_on_argument, in_place_on_view,
    in_place_on_view_of_argument, view_before_a_write, two_views, views_of_views, split_and_written,
    expanded_and_added, returns_its_argument, returns_a_constant, prints, under_no_grad, half_precision, integers,
    sorted_values, gathered, one_hot, gradient, second_gradient, where_and_clamp, windows, statistics, own_function,
    own_function_and_gradient, mapped, autocast,
]  # fmt: skip
REFUSED = [
    branch_on_data, branch_by_and, loop_on_data, reads_item, reads_float, reads_int, index_by_tensor_value, reads_list,
    through_numpy, numpy_function, tensor_of_tensors, random_numbers, random_like, random_in_place, python_random,
    clock, dropout, mask_as_index, nonzero, equal_branch, branch_on_a_length, branch_on_a_kept_length,
    loop_over_a_size, loop_over_rows, formats, grows_a_list, reads_a_changing_number, reshaped_in_place,
    Counting(), Remembering(),
]  # fmt: skip
EITHER = [branch_on_a_size, least_of_sizes, half_by_division, masked_fill_in_place,
          out_argument]  # fmt: skip


def name(function) -> str:
    return getattr(function, "__name__", type(function).__name__)


def results(x) -> list:
    if isinstance(x, torch.Tensor):
        return [x]
    if isinstance(x, dict):
        x = list(x.values())
    if isinstance(x, list | tuple):
        return [t for part in x for t in results(part)]
    return [x]


def agree(function, program, sizes) -> None:
    for n in sizes:
        given, mine = numbers(n, 4, seed=n), numbers(n, 4, seed=n)
        wanted = results(function(given))
        found = results(program(mine))
        assert len(wanted) == len(found)
        for a, b in zip(wanted, found, strict=True):
            if isinstance(a, torch.Tensor):
                assert a.dtype is b.dtype
                np.testing.assert_allclose(b.detach().float().numpy(), a.detach().float().numpy(), rtol=1e-5, atol=1e-6)
            else:
                assert a == b
        np.testing.assert_array_equal(mine.numpy(), given.numpy())  # what is written into the argument


@pytest.mark.parametrize("function", RIGHT, ids=name)
def test_right(function):
    given = numbers(5, 4)
    before = given.numpy().copy()
    program = export(function, (given,), dynamic={"x": {0: "n"}})
    np.testing.assert_array_equal(given.numpy(), before)
    agree(function, program, (5, 2, 11, 1))


@pytest.mark.parametrize("function", REFUSED, ids=name)
def test_refused_with_its_line(function):
    with pytest.raises(ExportError, match="cannot export this") as error:
        export(function, (numbers(5, 4),), dynamic={"x": {0: "n"}})
    assert "test_traps.py line" in str(error.value) or "remedy" in str(error.value)


@pytest.mark.parametrize("function", EITHER, ids=name)
def test_right_or_refused(function):
    """At sizes that decide otherwise than those seen the program raises; nowhere is it wrong."""
    try:
        program = export(function, (numbers(5, 4),), dynamic={"x": {0: "n"}})
    except ExportError:
        return
    for n in (5, 2, 11, 1, 60, 120):
        try:
            agree(function, program, (n,))
        except ValueError as error:
            assert "was exported where" in str(error)  # noqa: PT017


def test_training_and_evaluation():
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Dropout(0.5), torch.nn.BatchNorm1d(3))
    with pytest.raises(ExportError, match="random numbers"):
        export(model, (numbers(5, 4),))
    model.eval()
    program = export(model, (numbers(5, 4),), dynamic={"input": {0: "n"}})
    x = numbers(9, 4, seed=3)
    assert torch.allclose(program(x), model(x))


def test_statistics_of_a_norm_move_on():
    model = torch.nn.BatchNorm1d(4)
    program = export(model, (numbers(6, 4),))
    assert model.num_batches_tracked.item() == 0
    for seed in range(3):
        x = numbers(6, 4, seed=seed)
        np.testing.assert_allclose(program(x).detach().numpy(), model(x).detach().numpy(), rtol=1e-6)
    np.testing.assert_allclose(program.state["running_mean"][1], model.running_mean.numpy(), rtol=1e-6)
    assert program.state["num_batches_tracked"][1] == 3


def test_a_weight_replaced_after_the_export():
    model = torch.nn.Linear(4, 2)
    x = numbers(3, 4)
    program = export(model, (x,))
    before = model(x).detach().clone()
    model.weight = torch.nn.Parameter(torch.zeros(2, 4))
    with torch.no_grad():
        model.bias.zero_()
    assert torch.equal(program(x), before)


def test_arguments_that_differ_are_refused():
    program = export(lambda x, k: x * k, (numbers(2, 4), 3))
    with pytest.raises(ValueError, match="was 3 when the program was exported, got 4"):
        program(numbers(2, 4), 4)
    with pytest.raises(ValueError, match="another shape"):
        program(numbers(3, 4), 3)
    with pytest.raises(ValueError, match="another dtype"):
        program(numbers(2, 4).double(), 3)
    with pytest.raises(ValueError, match="takes 2 arguments"):
        program(numbers(2, 4))


def test_one_example_is_no_special_size():
    program = export(lambda x: x + x.sum(0, keepdim=True), (numbers(1, 4),), dynamic={"x": {0: "n"}})
    x = numbers(6, 4)
    assert torch.allclose(program(x), x + x.sum(0, keepdim=True))


def test_a_guard_names_its_line():
    program = export(branch_on_a_size, (numbers(5, 4),), dynamic={"x": {0: "n"}})
    with pytest.raises(ValueError, match=r"not n > 100.*test_traps.py line"):
        program(numbers(101, 4))
