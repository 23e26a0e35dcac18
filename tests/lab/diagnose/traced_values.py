"""Programs for test_traced_rules.py whose values are not finite, or lose their digits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lab.diagnose.finding import Found
from lab.diagnose.values import lost_digits
from lab.diagnose.values.nonfinite import first_nonfinite
from lab.diagnose.values.unseen_losses import first_unseen
from lab.recorder.cell_trace import Trace
from lab.recorder.unseen_losses import UnseenLoss

from .traced_case import Case


def of(value: str, code: str, end: str = "z.sum().backward()") -> Case:
    """What is made of a parameter whose values are all one."""
    return Case(first_nonfinite, f"t = torch.full((3, 4), {value}, requires_grad=True)\nz = {code}\n{end}")


REASONS = {
    "the log of 0": of("0.0", "t.log()"),
    "the log2 of 0": of("0.0", "t.log2()"),
    "the log10 below 0": of("-2.0", "t.log10()"),
    "the log1p of -1": of("-1.0", "t.log1p()"),
    "the log1p below -1": of("-2.0", "torch.log1p(t)"),
    "the sqrt below 0": of("-1.0", "t.sqrt()"),
    "the rsqrt of 0": of("0.0", "t.rsqrt()"),
    "the exp of 100": of("100.0", "t.exp()"),
    "the exp2 of 200": of("200.0", "torch.exp2(t)"),
    "the expm1 of 100": of("100.0", "torch.expm1(t)"),
    "the cosh of 100": of("100.0", "torch.cosh(t)"),
    "the sinh of 100": of("100.0", "torch.sinh(t)"),
    "a division by 0": of("0.0", "1.0 / t"),
    "a division of 0 by 0": of("0.0", "t / t"),
    "a reciprocal of 0": of("0.0", "t.reciprocal()"),
    "a remainder by 0": of("3.0", "torch.remainder(t, torch.zeros(4))"),
    "a power that overflows": of("1e30", "t ** 2"),
    "a power that overflows, below 0": of("-1e30", "t ** 3"),
    "a power of what is below 0": of("-2.0", "t ** 0.5"),
    "a power of 0": of("0.0", "t ** -1.0"),
    "the asin of 2": of("2.0", "torch.asin(t)"),
    "the acos of 2": of("2.0", "torch.acos(t)"),
    "the atanh of 1": of("1.0", "torch.atanh(t)"),
    "a sum that overflows": of("3e38", "t.sum(0)"),
    "a mean that overflows": of("-3e38", "t.mean(0)"),
    "a mean of nothing": of("1.0", "t[:, :0].mean()"),
    "the lgamma of 0": of("0.0", "torch.lgamma(t)"),
    "a product that overflows": of("1e20", "t @ t.T"),
    "a product by a number that overflows": of("1e20", "t * 1e30"),
    "the log of a product": of("1e-30", "t.prod(1).log()"),
    "the spread of a single value": of("1.0", "t[:1].std(0)"),
    "filled with NaN": of("1.0", "torch.where(t > 0, float('nan'), t)"),
    "filled with infinities": of("1.0", "t.masked_fill(t > 0, float('inf'))"),
    "infinity times 0": of("1e30", "(t * 1e30) * 0.0"),
    "infinities of two signs": of("1e30", "(t * 1e30) - (t * 2e30)"),
    "a mask that hides all": of("1.0", "F.softmax(t.masked_fill(t > 0, float('-inf')), 1)"),
    "a mask that hides all, in logarithms": of("1.0", "F.log_softmax(t.masked_fill(t > 0, float('-inf')), 1)"),
    "a mask that hides all, and a product": of("1.0", "t.masked_fill(t > 0, float('-inf')) * 0.0"),
    "a loss of large numbers": of("1e25", "F.mse_loss(t, torch.zeros(3, 4))", "z.backward()"),
    "a single value": of("0.0", "t[0, 0].log()", "z.backward()"),
    "in a later run": Case(
        first_nonfinite,
        "t = torch.full((3,), 2.0, requires_grad=True)\nfor k in range(6):\n    z = 1.0 / (t - k + 2)\n"
        "    z.sum().backward()",
    ),
    "no harm to a loss": Case(first_nonfinite, "t = torch.zeros(3)\nz = t / t\nw = P(3)\n(w * 2.0).sum().backward()"),
    "no harm at all": Case(
        first_nonfinite, "t = torch.zeros(3)\nz = (t / t).nan_to_num()\nw = P(3)\n(w * 2.0).sum().backward()", False
    ),
    "a look at a gradient": Case(
        first_nonfinite,
        "w = P(3)\n(w * 1e30).sum().backward()\nsize = (w.grad * 1e30).norm()\nv = P(3)\nv.sum().backward()",
        False,
    ),
    "a slope of a root": of("0.0", "t.sqrt()"),
    "a slope of a norm": of("0.0", "(t.square().sum(1)).sqrt()"),
    "a slope of a power": of("0.0", "t ** 0.5"),
    "a slope of a logarithm": of("1e-39", "t.log()"),
    "a slope of a division": of("1e-30", "torch.ones(4) / t"),
    "a slope that grows": of("1e-30", "(t * 1e25) * 1e25"),
    "a slope that grows, of products": of("1e-30", "(t @ torch.full((4, 4), 1e25)) @ torch.full((4, 4), 1e25)"),
    "a slope that where keeps out": of(
        "0.0", "torch.where(t > 0, torch.sqrt(torch.where(t > 0, t, torch.ones(()))), t)", "z.sum().backward()"
    )._replace(found=False),
    "data that are not finite": Case(
        first_nonfinite, "d = torch.full((4, 4), float('inf'))\nw = P(4, 4)\n(d @ w).sum().backward()"
    ),
    "one of two that is not finite": Case(
        first_nonfinite,
        "d, e = torch.ones(4, 4), torch.ones(4, 4)\ne[2, 1] = float('nan')\nw = P(4, 4)\n"
        "((d + e) @ w).sum().backward()",
    ),
    "weights that are not finite": Case(
        first_nonfinite,
        "w = P(4, 4)\nwith torch.no_grad():\n    w.fill_(float('nan'))\n(x[:, :4] @ w).sum().backward()",
    ),
    "NaN is written": Case(first_nonfinite, "w = P(4)\nz = w * 2.0\nz[1] = float('nan')\nz.sum().backward()"),
    "an error that speaks of NaN": Case(
        first_nonfinite, "t = torch.zeros(3)\nz = t / t\nraise ValueError('found nan in z')"
    ),
}

HALF = {
    "float16 overflows": of("300.0", "(t.half() * t.half())"),
    "a sum in float16 overflows": of("30000.0", "t.half().sum(0)"),
    "the exp of 20 in float16": of("20.0", "t.half().exp()"),
}

# -- steps that were not recorded --------------------------------------------------------------------------------------

LOOP = (
    "net = nn.Linear(16, 4)\nfor k in range(3):\n    d = x * 1.0\n{more}    loss = F.cross_entropy(net(d), labels)\n"
    "    loss.backward()\nd = 3"
)


def unseen(trace: Trace, explained: set[Any]) -> list[Found]:
    found = first_unseen(trace, ", and it spoils the gradient of w", [])
    return [] if found is None else [found]


def at(step: int, *data: tuple[str, int, int, int]) -> Callable[[Trace], None]:
    def facts(trace: Trace) -> None:
        trace.unseen = UnseenLoss(step, trace.backwards[-1], list(data))

    return facts


NAN = ("d", 2, 0, 1024)
UNSEEN = {
    "no step that nobody saw": Case(unseen, LOOP.format(more=""), False),
    "a step that nobody saw": Case(unseen, LOOP.format(more=""), True, at(1251)),
    "data that nobody saw": Case(unseen, LOOP.format(more=""), True, at(1251, NAN)),
    "data that nobody saw, infinite": Case(unseen, LOOP.format(more=""), True, at(12, ("d", 0, 3, 1024))),
    "data that nobody saw, of two": Case(unseen, LOOP.format(more=""), True, at(12, NAN, ("e", 1, 0, 8))),
    "data that nobody saw, of three": Case(
        unseen, LOOP.format(more=""), True, at(12, NAN, ("e", 1, 0, 8), ("f", 1, 0, 8))
    ),
    "data that nobody saw, of five": Case(
        unseen, LOOP.format(more=""), True, at(12, NAN, *((name, 1, 0, 8) for name in "efgh"))
    ),
    "data that are written": Case(unseen, LOOP.format(more="    d[3] = 0.5\n"), True, at(12, NAN)),
    "data that are written in place": Case(unseen, LOOP.format(more="    d += 0.5\n"), True, at(12, NAN)),
    "data that are written twice": Case(
        unseen, LOOP.format(more="    d[3] = 0.5\n    d[4] += 0.5\n"), True, at(12, NAN)
    ),
    "others that are written": Case(unseen, LOOP.format(more="    e = x * 2.0\n    e[3] = 1\n"), True, at(12, NAN)),
    "a part of data": Case(unseen, LOOP.format(more=""), True, at(12, ("d[0]", 2, 0, 1024))),
    "data that nobody reads": Case(unseen, LOOP.format(more=""), True, at(12, ("other", 2, 0, 1024))),
    "data on the line itself": Case(unseen, LOOP.format(more=""), True, at(12, ("loss", 2, 0, 1))),
}

HALVES = (
    "net = nn.Linear(16, 4).{to}\nopt = torch.optim.{kind}(net.parameters(), lr={lr}{more})\nfor k in range(3):\n"
    "    loss = F.cross_entropy(net(x.to(net.weight.dtype)).float(), labels)\n    opt.zero_grad()\n"
    "    loss.backward()\n"
    "    opt.step()"
)


def halves(rule: Callable[..., list[Found]], found: bool = True, to: str = "half()", kind: str = "Adam",
           lr: float = 0.01, more: str = "") -> Case:  # fmt: skip
    return Case(rule, HALVES.format(to=to, kind=kind, lr=lr, more=more), found)


def spoilt(trace: Trace) -> None:
    for gradient in trace.gradients.values():
        gradient.nonfinite = 3


def large(trace: Trace) -> None:
    """As if weights had a size by which a step of 0.01 is just lost in bfloat16: half a place is a 512th."""
    for leaf in trace.gradients:
        trace.weights[leaf] = 0.01 * 512 * 1.01


def small(trace: Trace) -> None:
    for leaf in trace.gradients:
        trace.weights[leaf] = 0.01 * 512 * 0.99


DIGITS = {
    "an eps that is 0 in float16": halves(lost_digits.no_eps),
    "an eps that is 0 in float16, spoilt": halves(lost_digits.no_eps)._replace(facts=spoilt),
    **{
        f"an eps of {kind}": halves(lost_digits.no_eps, kind=kind)
        for kind in ("AdamW", "RMSprop", "NAdam", "RAdam", "Adamax")
    },
    "an eps of Adadelta": halves(lost_digits.no_eps, kind="Adadelta", more=", eps=1e-8"),
    "an eps of Adagrad": halves(lost_digits.no_eps, kind="Adagrad"),
    "an eps that is none": halves(lost_digits.no_eps, False, more=", eps=1e-4"),
    "an eps of 2 ** -25": halves(lost_digits.no_eps, more=", eps=2.0 ** -25"),
    "an eps of more": halves(lost_digits.no_eps, False, more=", eps=3.1e-8"),
    "an eps of 0": halves(lost_digits.no_eps, False, more=", eps=0.0"),
    "no eps": halves(lost_digits.no_eps, False, kind="SGD"),
    "an eps in float32": halves(lost_digits.no_eps, False, to="float()"),
    "an eps without steps": halves(lost_digits.no_eps, False, lr=0.0),
    "steps that round away": halves(lost_digits.steps_round_away, to="bfloat16()")._replace(facts=large),
    "steps that round away, by to": halves(lost_digits.steps_round_away, to="to(torch.bfloat16)")._replace(facts=large),
    "steps that do not round away": halves(lost_digits.steps_round_away, False, to="bfloat16()")._replace(facts=small),
    "steps of SGD": halves(lost_digits.steps_round_away, to="bfloat16()", kind="SGD")._replace(facts=large),
    "steps of SGD that are seen": halves(lost_digits.steps_round_away, False, to="bfloat16()", kind="SGD"),
    "steps in float32": halves(lost_digits.steps_round_away, False, to="float()")._replace(facts=large),
    "a variance by squares": Case(
        lost_digits.lost_digits, "s = torch.randn(1000, 8) + 1e4\nv = s.square().mean(0) - s.mean(0).square()"
    ),
    "a variance by products": Case(
        lost_digits.lost_digits, "s = torch.randn(1000, 8) + 1e4\nm = s.mean(0)\nv = (s * s).mean(0) - m * m"
    ),
    "a variance by sums": Case(
        lost_digits.lost_digits, "s = torch.randn(1000, 8) + 1e4\nm = s.mean(0)\nv = (s ** 2).sum(0) / 1000 - m ** 2"
    ),
    "a variance that runs": Case(
        lost_digits.lost_digits,
        "a, b = torch.zeros(100), torch.zeros(100)\nfor k in range(20):\n    s = torch.randn(100) + 1e4\n"
        "    a += s / 20\n"
        "    b += s.square() / 20\nv = b - a.square()",
    ),
    "a variance of small numbers": Case(
        lost_digits.lost_digits, "s = torch.randn(1000, 8)\nv = s.square().mean(0) - s.mean(0).square()", False
    ),
    "seconds since 1970": Case(lost_digits.lost_digits, "s = torch.arange(100).float() + 1.7e9\nd = s[1:] - s[:-1]"),
    "the rest of seconds since 1970": Case(
        lost_digits.lost_digits, "s = torch.arange(100).float() * 7 + 1.7e9\nd = s % 60.0"
    ),
    "a difference of bytes": Case(
        lost_digits.wraps,
        "a = torch.tensor(np.arange(8, dtype=np.uint8))\nb = torch.tensor(np.full(8, 4, np.uint8))\n"
        "d = (a - b).float()",
    ),
    "a sum of bytes": Case(lost_digits.wraps, "a = torch.tensor(np.full(8, 200, np.uint8))\nd = (a + a).float()"),
    "a sum of few bytes": Case(
        lost_digits.wraps, "a = torch.tensor(np.full(8, 20, np.uint8))\nd = (a + a).float()", False
    ),
    "a sum in bfloat16": Case(
        lost_digits.stands_still,
        "t = torch.full((), 256.0, dtype=torch.bfloat16)\nfor k in range(20):\n"
        "    t = t + torch.full((), 0.5, dtype=torch.bfloat16)",
    ),
    "a sum in float32 that moves": Case(
        lost_digits.stands_still, "t = torch.zeros(())\nfor k in range(20):\n    t = t + torch.full((), 0.5)", False
    ),
}

VALUES = REASONS | HALF | UNSEEN | DIGITS
