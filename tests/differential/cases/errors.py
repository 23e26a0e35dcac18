# Errors of every kind; the cell ends in one each time.
import torch

a, b = torch.ones(2, 3), torch.ones(2, 3)


def inner(x):
    return x @ b


def outer(x):
    try:
        return inner(x)
    except RuntimeError as error:
        raise ValueError("outer") from error


outer(a)
# %%
w = torch.ones(3, requires_grad=True)
loss = (w * w).sum()
loss.backward()
loss.backward()
# %%
(w * 2).backward()
# %%
a.backward()
# %%
torch.nn.Linear(3, 4)(torch.ones(2, 5))
# %%
torch.nn.functional.cross_entropy(torch.ones(2, 3), torch.tensor([0, 7]))
# %%
raise SystemExit(3)
# %%
undefined_name + 1
# %%
def broken(:
# %%
import warnings

warnings.simplefilter("error")
torch.nn.functional.mse_loss(torch.ones(3, 1), torch.ones(3))
# %%
warnings.simplefilter("default")
raise ExceptionGroup("two", [ValueError(1), TypeError(2)])
# %%
assert torch.equal(a, b * 2), "not equal"
# %%
raise KeyboardInterrupt
# %%
def deep(n):
    return deep(n + 1) + a.sum()


try:
    deep(0)
except RecursionError as error:
    print(type(error).__name__)
# %%
float("no")
