"""Programs for test_traced_rules.py about data: values of NumPy's that are not finite, batches that are taken wrongly,
variances, small steps; and programs whose facts are at a bound."""

from __future__ import annotations

from lab.diagnose.data import batches
from lab.diagnose.order import Rule
from lab.diagnose.speed import slow_growth
from lab.diagnose.training import gradient_scale, step_sizes
from lab.diagnose.values import lost_digits, nonfinite
from lab.recorder.cell_trace import Trace

from .traced_case import Case
from .traced_slow import by_clock

# -- values that are not finite ----------------------------------------------------------------------------------------

DATA = (
    "a = np.arange(1, 13, dtype=np.float32).reshape(4, 3)\n{make}\nx2, w = torch.tensor(d), P(3, 4)\n"
    "(x2 @ w).sum().backward()"
)


def data(make: str, found: bool = True) -> Case:
    return Case(nonfinite.first_nonfinite, DATA.format(make=make), found)


FINITE = {
    "data by a logarithm of 0": data("a[1, 1] = 0\nd = np.log(a)"),
    "data by a logarithm of 0, to 2": data("a[1, 1] = 0\nd = np.log2(a)"),
    "data by a logarithm of 0, to 10": data("a[1, 1] = 0\nd = np.log10(a)"),
    "data by a root below 0": data("a[1, 1] = -1\nd = np.sqrt(a)"),
    "data by an angle of 2": data("a[:] = 0.5\na[1, 1] = 2\nd = np.arccos(a)"),
    "data by a spread of 0": data("a[:, 1] = 5\nd = (a - a.mean(0)) / a.std(0)"),
    "data by a spread of 0, of a name": data("a[:, 1] = 5\ns = a.std(0)\nd = (a - a.mean(0)) / s"),
    "data by a spread of 0, in place": data("a[:, 1] = 5\nd = a - a.mean(0)\nd /= a.std(0)"),
    "data by a spread of 0, of two": data("a[:, 1] = 5\nd, e = (a - a.mean(0)) / a.std(0), a"),
    "data by a spread of 0, with a type": data("a[:, 1] = 5\nd: object = (a - a.mean(0)) / a.std(0)"),
    "data by two spreads of 0": data("a[:, 1:] = 5\nd = (a - a.mean(0)) / a.std(0)"),
    "data by a spread of 0 in a row": data("a[1] = 5\nd = ((a.T - a.mean(1)) / a.std(1)).T"),
    "data by a spread of 0 everywhere": data("a[:] = 5\nd = (a - a.mean(0)) / a.std(0)"),
    "data by a range of 0": data("a[:, 1] = 5\nd = (a - a.min(0)) / (a.max(0) - a.min(0))"),
    "data with a NaN": data("d = a.copy()\nd[2, 1] = np.nan"),
    "data with an infinity": data("d = a.copy()\nd[2, 1] = np.inf"),
    "data with NaN in two rows": data("d = a.copy()\nd[1:3, 1] = np.nan"),
    "data with NaN in three rows": data("d = a.copy()\nd[1:, 1] = np.nan"),
    "data with NaN in a column": data("d = a.copy()\nd[:, 1] = np.nan"),
    "data with NaN in two columns": data("d = a.copy()\nd[:, 1:] = np.nan"),
    "data with NaN in a column and more": data("d = a.copy()\nd[:, 1] = np.nan\nd[0, 0] = np.nan"),
    "data of NaN alone": data("d = a * np.nan"),
    "data that is finite": data("d = np.log(a)", False),
    "data of one number": Case(
        nonfinite.first_nonfinite, "d = torch.tensor([np.nan])\nw = P(1)\n(d * w).sum().backward()"
    ),
}  # fmt: skip

# -- batches -----------------------------------------------------------------------------------------------------------

LOADER = (
    "net = nn.Linear(16, 4)\nopt = torch.optim.SGD(net.parameters(), lr=0.1)\n"
    "from core.utils.data import DataLoader, TensorDataset\n"
    "loader = DataLoader(TensorDataset(x, labels), batch_size=16{more})\n{loop}"
)
TRAIN = "F.cross_entropy(net(xb), yb).backward(); opt.step(); opt.zero_grad()"
FIRST = "for k in range(4):\n    xb, yb = next(iter({of}))\n    " + TRAIN


def loops(rule: Rule, loop: str, found: bool = True, more: str = "") -> Case:
    return Case(rule, LOADER.format(more=more, loop=loop), found)


BATCHES = {
    "the first batch": loops(batches.first_only, FIRST.format(of="loader")),
    "the first batch, shuffled": loops(
        batches.first_only, FIRST.format(of="loader"), more=", shuffle=True"
    ),
    "the first batch, by a sampler": loops(
        batches.first_only, FIRST.format(of="loader"), more=", sampler=range(64)"
    ),
    "the first batch of a loader of another name": loops(
        batches.first_only, "other = loader\n" + FIRST.format(of="loader")
    ),
    "the first batch of what was made elsewhere": Case(
        batches.first_only,
        "net = nn.Linear(16, 4)\nopt = torch.optim.SGD(net.parameters(), lr=0.1)\n"
        "for loader in [[(x, labels)]]:\n    pass\n" + FIRST.format(of="loader"),
    ),
    "the first batch before the loop": loops(
        batches.first_only, "xb, yb = next(iter(loader))\nfor k in range(4):\n    " + TRAIN, False
    ),
    "the next batch": loops(
        batches.first_only, "it = iter(loader)\nfor k in range(4):\n    xb, yb = next(it)\n    " + TRAIN, False
    ),
    "the first batch in each epoch": loops(
        batches.first_only,
        "for e in range(2):\n    xv, yv = next(iter(loader))\n    for xb, yb in loader:\n        " + TRAIN, False
    ),
    "the first batch in a loop of its own": loops(
        batches.first_only,
        "for e in range(2):\n    for xb, yb in loader:\n        " + TRAIN
        + "\n    for k in range(2):\n        xv, yv = next(iter(loader))", False
    ),
    "a loop that breaks off": loops(
        batches.first_only, f"for e in range(3):\n    for xb, yb in loader:\n        {TRAIN}\n        break"
    ),
    "a loop that breaks off, counted": loops(
        batches.first_only,
        f"for e in range(3):\n    for k, (xb, yb) in enumerate(loader):\n        {TRAIN}\n        break",
    ),
    "a loop over numbers that breaks off": loops(
        batches.first_only,
        f"xb, yb = x, labels\nfor e in range(3):\n    for k in range(4):\n        {TRAIN}\n        break", False
    ),
    "a loop that may break off": loops(
        batches.first_only,
        f"for e in range(3):\n    for xb, yb in loader:\n        {TRAIN}\n        if e > 5: break", False
    ),
    "two permutations of names": loops(
        batches.apart, "for k in range(3):\n    p, q = torch.randperm(64), torch.randperm(64)\n"
        "    xb, yb = x[p], labels[q]\n    " + TRAIN,
    ),
    "two permutations on their lines": loops(
        batches.apart, "for k in range(3):\n    xb = x[torch.randperm(64)]\n    yb = labels[torch.randperm(64)]\n    "
        + TRAIN,
    ),
    "two permutations by index_select": loops(
        batches.apart, "for k in range(3):\n    xb = x.index_select(0, torch.randperm(64))\n"
        "    yb = labels.index_select(0, torch.randperm(64))\n    " + TRAIN,
    ),
    "a permutation of both": loops(
        batches.apart, "for k in range(3):\n    p = torch.randperm(64)\n    xb, yb = x[p], labels[p]\n    " + TRAIN,
        False,
    ),
    "a permutation of both by a function": loops(
        batches.apart, "def pick(p):\n    return x[p], labels[p]\nfor k in range(3):\n"
        "    xb, yb = pick(torch.randperm(64))\n    " + TRAIN, False
    ),
    "permutations of parts": loops(
        batches.apart, "for k in range(3):\n    p, q = torch.randperm(64)[:8], torch.randperm(64)[:8]\n"
        "    xb, yb = x[p], labels[q]\n    " + TRAIN, False
    ),
    "one layer as often": Case(
        batches.one_for_all,
        "net = nn.Sequential(*[nn.Linear(16, 16)] * 3)\nnet(x).sum().backward()",
    ),
    "one layer as often, from the right": Case(
        batches.one_for_all,
        "net = nn.Sequential(*(3 * [torch.nn.Linear(16, 16)]))\nnet(x).sum().backward()",
    ),
    "one layer as often, among others": Case(
        batches.one_for_all,
        "net = nn.Sequential(*[nn.Linear(16, 16), nn.ReLU()] * 2)\nnet(x).sum().backward()",
    ),
    "a layer for each": Case(
        batches.one_for_all,
        "net = nn.Sequential(*[nn.Linear(16, 16) for k in range(3)])\nn = [0] * 3\nnet(x).sum().backward()", False,
    ),
    "one activation as often": Case(
        batches.one_for_all, "a = nn.Linear(16, 16)\nnet = nn.Sequential(a, *[nn.ReLU()] * 3)\n"
        "net(x).sum().backward()", False,
    ),
}  # fmt: skip

# -- digits and sizes --------------------------------------------------------------------------------------------------

SPREAD = "s = torch.randn(1000, 8) + 1e4\nm = s.mean(0)\n{v}"


def spread(v: str, found: bool = True) -> Case:
    return Case(lost_digits.lost_digits, SPREAD.format(v=v), found)


DEAD = (
    "net = nn.Sequential(nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 4))\nnn.init.constant_(net[0].bias, -1e5)\n"
    "data = x * {scale}\nF.cross_entropy(net(data), labels).backward()"
)
CLIPS = (
    "net = nn.Linear(16, 4)\nopt = torch.optim.SGD(net.parameters(), lr={lr})\nfor k in range(4):\n"
    "    opt.zero_grad()\n    F.cross_entropy(net(x), labels).backward()\n{clip}    opt.step()"
)
GROWN = (
    "rnn, s = nn.GRU(16, 8), torch.randn(40, 1, 16)\nwith torch.no_grad():\n    for k in range(40):\n"
    "        o, h = rnn(s[: k + 1])"
)


def steady(share: float, found: bool) -> Case:
    """A sequence that was longer than before in such a share of its turns."""

    def facts(trace: Trace) -> None:
        for row in trace.rows:
            row.grown = round(share * row.count)

    return Case(by_clock(slow_growth.prefixes, op=0.1), GROWN, found, facts)


def no_source(trace: Trace) -> None:
    """As if the optimizer was made where nobody can read it."""
    trace.code = trace.code.replace("torch.optim.Adam(", "made(")


SIZES = {
    "a variance by squares of squares": spread("v = (s ** 2).mean(0) - m ** 2"),
    "a variance by a square": spread("v = s.square().mean(0) - m.square()"),
    "a variance by a product": spread("v = (s * s).mean(0) - m * m"),
    "a variance by a product of two": spread("v = (s * s).mean(0) - m * s[0]", False),
    "a variance by a sum": spread("v = s.pow(2).sum(0).div(1000) - m.pow(2)"),
    "a variance by a view": spread("v = s.square().mean(0).view(2, 4) - m.square().view(2, 4)"),
    "a variance by an average that runs": spread("v = s.square().mean(0).mul(0.9).add(0.1 * s[0] ** 2) - m.square()"),
    "a variance by a lerp": spread("v = torch.lerp(s.square().mean(0), s[0].square(), 0.1) - m.square()"),
    "a variance of no squares": spread("v = s.abs().mean(0) * 1e4 - m.square()"),
    "a relu that is dead": Case(gradient_scale.scale, DEAD.format(scale="1.0")),
    "a relu that is dead of wide data": Case(gradient_scale.scale, DEAD.format(scale="100.0")),
    "clipped to next to nothing": Case(
        step_sizes.step_size, CLIPS.format(lr=0.1, clip="    nn.utils.clip_grad_norm_(net.parameters(), 1e-9)\n")
    ),
    "clipped to next to nothing, by values": Case(
        step_sizes.step_size, CLIPS.format(lr=0.1, clip="    nn.utils.clip_grad_value_(net.parameters(), 1e-9)\n")
    ),
    "a learning rate of next to nothing": Case(step_sizes.step_size, CLIPS.format(lr=1e-9, clip="")),
    "a sequence that grows in each turn": steady(1.0, True),
    "a sequence that grows in half of the turns": steady(0.5, True),
    "a sequence that grows in fewer turns": steady(0.475, False),
    "an eps of an optimizer that nobody sees": Case(
        lost_digits.no_eps,
        "net = nn.Linear(16, 4).half()\nopt = torch.optim.Adam(net.parameters(), lr=0.01)\nfor k in range(3):\n"
        "    F.cross_entropy(net(x.half()).float(), labels).backward()\n    opt.step()", False, no_source,
    ),
}  # fmt: skip

ABOUT_DATA = FINITE | BATCHES | SIZES
