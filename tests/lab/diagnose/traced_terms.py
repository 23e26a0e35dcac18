"""Programs for test_traced_rules.py of which one rule is asked that goes by what is written and what ran there: numbers
in losses, draws, writes to places, schedulers, layers that forward() makes, states that are loaded."""

from __future__ import annotations

from lab.diagnose.data import lost_writes
from lab.diagnose.errors import rebound_parameters
from lab.diagnose.graph import constant_terms, parameters_in_forward, sampled_values
from lab.diagnose.models import default_dims
from lab.diagnose.training import idle_statements, loaded, schedule
from lab.diagnose.values import lost_digits
from lab.recorder.cell_trace import Trace

from .traced_case import Case, by_name
from .traced_waits import ops

# -- a number in a loss ------------------------------------------------------------------------------------------------

PENALTY = (
    "net, lam = nn.Linear(16, 4), 0.1\nfit, w = F.cross_entropy(net(x), labels), net.weight\n{loss}\nloss.backward()"
)


def penalty(loss: str, found: bool = True) -> Case:
    return Case(constant_terms.number_added, PENALTY.format(loss=loss), found)


NUMBERS = {
    "a number in a loss": penalty("loss = fit + w.abs().sum().item()"),
    "a number in a loss, first": penalty("loss = w.abs().sum().item() + fit"),
    "a number in a loss, by float": penalty("loss = fit + float(w.abs().sum())"),
    "a number in a loss, times a constant": penalty("loss = fit + 0.1 * w.abs().sum().item()"),
    "a number in a loss, times a name": penalty("loss = fit + w.abs().sum().item() * lam"),
    "a number in a loss, times an attribute": penalty("loss = fit + w.abs().sum().item() * np.pi"),
    "a number in a loss, of the other sign": penalty("loss = fit + -w.abs().sum().item()"),
    "a number in a loss, by parts": penalty("loss = fit + w.abs().sum().item() / 3"),
    "a number in a loss, by a name": penalty("loss = fit + w.abs().sum().item() / lam"),
    "a number in a loss, added to it": penalty("loss = fit * 1.0\nloss += w.abs().sum().item()"),
    "a number in a loss, added in place": penalty("loss = fit * 1.0\nloss += 0.1 * w.abs().sum().item()"),
    "a number that is divided by": penalty("loss = fit + 3 / w.abs().sum().item()", False),
    "a number that is multiplied by what is computed": penalty(
        "loss = fit + (lam + 0.1) * w.abs().sum().item()", False
    ),
    "a number that is divided by what is computed": penalty("loss = fit + w.abs().sum().item() / (lam + 1)", False),
    "a number to a power": penalty("loss = fit + w.abs().sum().item() ** 2", False),
    "a number that weighs": penalty("loss = fit * w.abs().sum().item()", False),
    "a number that is taken off": penalty("loss = fit - w.abs().sum().item()", False),
    "a number that is taken off in place": penalty("loss = fit * 1.0\nloss -= w.abs().sum().item()", False),
    "a number of data": penalty("loss = fit + x.abs().sum().item()", False),
    "a number that is added to another sum": penalty("loss = fit + w.sum()\nn = 3.0 + w.abs().sum().item()", False),
}

# -- draws -------------------------------------------------------------------------------------------------------------

NORMAL = (
    "from core.distributions import Bernoulli, Categorical, Normal\nenc, dec = nn.Linear(16, 4), nn.Linear(4, 16)\n"
    "q = {of}\n{z}\nloss = {loss}\nloss.backward()"
)


def draw(z: str, loss: str = "F.mse_loss(dec(z), x)", of: str = "Normal(enc(x), 1.0)", found: bool = True) -> Case:
    return Case(sampled_values.sampled, NORMAL.format(of=of, z=z, loss=loss), found)


DRAWS = {
    "a draw that goes on": draw("z = q.sample()"),
    "a draw that goes on, of a shape": draw("z = q.sample((3,))[0]"),
    "a draw that goes on, on its line": draw("n = 1", "F.mse_loss(dec(q.sample()), x)"),
    "a draw that is scored as well": draw(
        "z = q.sample()", "F.mse_loss(dec(z), x) - q.log_prob(z).mean()", found=False
    ),
    "a draw that goes on through a view": draw("z = q.sample().reshape(64, 4)"),
    "a draw that passes gradients": draw("z = q.rsample()", found=False),
    "a draw that is only scored": draw("z = q.sample()", "-q.log_prob(z).mean()", found=False),
    "a draw that no loss reads": draw("z = q.sample()", "F.mse_loss(dec(enc(x)), x)", found=False),
    "a draw of data": draw("z = q.sample()", of="Normal(x[:, :4], 1.0)", found=False),
    "a draw of classes": draw(
        "z = F.one_hot(q.sample(), 4).float()", of="Categorical(logits=enc(x))", found=False
    ),
    "a draw of coins": draw("z = q.sample()", of="Bernoulli(logits=enc(x))", found=False),
}  # fmt: skip

# -- writes to places that come more than once -------------------------------------------------------------------------

PLACES = (
    "i, j, v = torch.tensor([0, 1, 1, 2]), torch.tensor([0, 1, 1, 0]), torch.ones(4)\n"
    "a, b, c = torch.zeros(3), torch.zeros(3, 4), torch.zeros(4, 3)\n{write}"
)


def write(text: str, found: bool = True) -> Case:
    return Case(lost_writes.lost, PLACES.format(write=text), found)


WRITES = {
    "added at places": write("a[i] += v"),
    "added at places, with a gradient": write("w = P(4)\na[i] += w\na.sum().backward()"),
    "added at places, a number": write("a[i] += 1"),
    "added at places, a number with a point": write("a[i] += 0.5"),
    "taken off at places": write("a[i] -= v"),
    "taken off at places, a number": write("a[i] -= 1"),
    "taken off at places, what is computed": write("a[i] -= v * 2"),
    "multiplied at places": write("a[i] *= v"),
    "divided at places": write("a[i] /= v"),
    "added at places, written out": write("a[i] = a[i] + v"),
    "added at places, written out from the right": write("a[i] = v + a[i]"),
    "added to rows": write("b[i] += torch.ones(4, 4)"),
    "added to columns": write("c[:, i] += torch.ones(4, 4)"),
    "multiplied in columns": write("c[:, i] *= torch.ones(4, 4)"),
    "added to columns, of any": write("c[..., i] += torch.ones(4, 4)"),
    "added to pairs": write("b[i, j] += v"),
    "added to pairs, a number": write("b[i, j] += 1"),
    "added at places that come once": write("a[torch.tensor([0, 2])] += 1", False),
    "written to places": write("a[i] = v", False),
    "another that is written to places": write("a[i] = a[j] + v", False),
}

# -- along which dimension ---------------------------------------------------------------------------------------------


def along(code: str, found: bool = True, shape: str = "4, 5, 6") -> Case:
    text = f"h, g = torch.randn({shape}), torch.randn({shape})\nz = {code}"
    return Case(default_dims.along_one, text, found)


DIMS = {
    "normalised along no dimension": along("F.normalize(h)"),
    "normalised along no dimension, by its norm": along("F.normalize(h, 2.0)"),
    "normalised along a dimension": along("F.normalize(h, 2.0, 1)", False),
    "normalised along a named dimension": along("F.normalize(h, dim=1)", False),
    "normalised by its whole name": along("torch.nn.functional.normalize(h)"),
    "normalised by half its name": along("nn.functional.normalize(h)"),
    "normalised in two dimensions": along("F.normalize(h)", False, "4, 6"),
    "normalised in four dimensions": along("F.normalize(h)", False, "4, 5, 6, 2"),
    "normalised, one of which is 1": along("F.normalize(h)", False, "4, 1, 6"),
    "normalised, the last of which is 1": along("F.normalize(h)", False, "4, 5, 1"),
    "normalised, the first of which is 1": along("F.normalize(h)", True, "1, 5, 6"),
    "a cosine along no dimension": along("F.cosine_similarity(h, g)"),
    "a cosine along no dimension, of torch": along("torch.cosine_similarity(h, g)"),
    "a cosine along a dimension": along("F.cosine_similarity(h, g, 1)", False),
    "a cosine along no dimension, of size 1": along("F.cosine_similarity(h, g)", True, "4, 1, 6"),
    "a softmax along a dimension": along("F.softmax(h, 1)", False),
}

# -- schedulers --------------------------------------------------------------------------------------------------------

PLAN = (
    "net = nn.Linear(16, 4)\nopt = torch.optim.SGD(net.parameters(), lr=0.1)\n"
    "from core.optim.lr_scheduler import CosineAnnealingLR, ReduceLROnPlateau, StepLR\n{plan}\n"
)
TRAINED = "opt.zero_grad(); F.cross_entropy(net(x), labels).backward(); opt.step()"


def planned(plan: str, *lines: str, times: int = 4, found: bool = True, after: str = "") -> Case:
    body = "".join(f"    {TRAINED if line == 'T' else line}\n" for line in lines)
    return Case(schedule.scheduled, PLAN.format(plan=plan) + f"for k in range({times}):\n{body}{after}", found)


EPOCHS = "for e in range({epochs}):\n    for k in range({batches}):\n        {train}\n        plan.step()"


def by_batch(plan: str, epochs: int, batches: int, found: bool = True) -> Case:
    text = PLAN.format(plan=plan) + EPOCHS.format(epochs=epochs, batches=batches, train=TRAINED)
    return Case(schedule.scheduled, text, found)


RATES = {
    "a plateau that nothing steps": planned("plan = ReduceLROnPlateau(opt)", "T"),
    "a schedule that nothing steps": planned("plan = StepLR(opt, 2)", "T"),
    "a schedule that nothing steps, by its path": planned("plan = torch.optim.lr_scheduler.StepLR(opt, 2)", "T"),
    "a schedule that nothing steps, of one step": planned("plan = StepLR(opt, 2)", "T", times=1, found=False),
    "a schedule that nothing steps, of two": planned("plan = StepLR(opt, 2)", "T", times=2),
    "a schedule that is handed on": planned("plan = StepLR(opt, 2)", "T", after="str(plan)", found=False),
    "a schedule that is a part of something": planned("net.plan = StepLR(opt, 2)", "T", found=False),
    "a schedule that is stepped": planned("plan = StepLR(opt, 2)", "T", "plan.step()", found=False),
    "a schedule that comes first": planned("plan = StepLR(opt, 2)", "plan.step()", "T"),
    "a schedule that comes first, of epochs": Case(
        schedule.scheduled,
        PLAN.format(plan="plan = StepLR(opt, 2)")
        + f"for e in range(3):\n    plan.step()\n    for k in range(2):\n        {TRAINED}", True,
    ),
    "a schedule that comes before the loop": planned("plan = StepLR(opt, 2)\nplan.step()", "T", found=False),
    "a schedule that comes in another loop": planned(
        "plan = StepLR(opt, 2)\nfor k in range(3):\n    plan.step()", "T", found=False
    ),
    "a schedule that is stepped twice": planned(
        "plan = StepLR(opt, 2)", "plan.step()", "T", "plan.step()", found=False
    ),
    "a learning rate that is gone": by_batch("plan = StepLR(opt, 2, 0.1)", 2, 6),
    "a learning rate that is gone, of eight steps": by_batch("plan = StepLR(opt, 2, 0.1)", 2, 4),
    "a learning rate that is gone, of seven": by_batch("plan = StepLR(opt, 2, 0.1)", 1, 7, False),
    "a learning rate that is a fiftieth": by_batch("plan = StepLR(opt, 2, 0.02)", 2, 4),
    "a learning rate that is a little more": by_batch("plan = StepLR(opt, 4, 0.021)", 2, 4, False),
    "a learning rate that is gone at the end": by_batch("plan = StepLR(opt, 7, 0.01)", 2, 5, False),
    "a learning rate that is gone for an epoch": planned(
        "plan = StepLR(opt, 2, 0.1)", "T", "plan.step()", times=12, found=False
    ),
    "a cosine that goes up again": planned("plan = CosineAnnealingLR(opt, T_max=5)", "T", "plan.step()", times=12),
    "a cosine that goes up again, by its place": planned(
        "plan = CosineAnnealingLR(opt, 5)", "T", "plan.step()", times=12
    ),
    "a cosine that goes up a little": planned(
        "plan = CosineAnnealingLR(opt, T_max=9)", "T", "plan.step()", times=12, found=False
    ),
    "a cosine of three steps": planned("plan = CosineAnnealingLR(opt, 1)", "T", "plan.step()", times=3, found=False),
    "a cosine of four steps": planned("plan = CosineAnnealingLR(opt, 1)", "T", "plan.step()", times=4),
    "a cosine that does not come down": planned(
        "plan = CosineAnnealingLR(opt, 5, eta_min=0.02)", "T", "plan.step()", times=12, found=False
    ),
    "a cosine for each batch": by_batch("plan = CosineAnnealingLR(opt, 5)", 2, 6),
    "a schedule of a function": Case(
        schedule.scheduled,
        PLAN.format(plan="def train(plan):\n    for k in range(6):\n        " + TRAINED + "\n        plan.step()")
        + "plan = StepLR(opt, 2, 0.1)\nfor e in range(2):\n    train(plan)", True,
    ),
}  # fmt: skip

# -- layers that are made in each pass ---------------------------------------------------------------------------------

MADE = (
    "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
    "        self.first = nn.Linear(16, 8)\n    def forward(self, x):\n{body}\nnet, other = Net(), nn.Linear(4, 4)\n"
    "opt = torch.optim.SGD(net.parameters(), lr=0.1)\nfor k in range(3):\n"
    "    F.cross_entropy({out}, labels).backward()\n    opt.step()"
)


def made(body: str, out: str = "net(x)", found: bool = True, named: bool = False) -> Case:
    rule = parameters_in_forward.made_in_forward if named else parameters_in_forward.made_elsewhere
    text = "\n".join(f"        {line}" for line in body.splitlines())
    return Case(by_name(rule), MADE.format(body=text, out=out), found)


LAYERS = {
    "a layer without a name": made("return nn.Linear(8, 4)(self.first(x))"),
    "a layer without a name, and one of the cell": made(
        "return nn.Linear(8, 4)(self.first(x))", out="nn.Linear(4, 4)(net(x))"
    )._replace(rule=by_name(parameters_in_forward.made_elsewhere, marks=False)),
    "a layer without a name, and one that is kept": made("return nn.Linear(8, 4)(self.first(x))", out="other(net(x))"),
    "a layer without a name in each of the cell": made(
        "return self.first(x)[:, :4]", out="nn.Linear(4, 4)(net(x))", found=False
    ),
    "two layers without a name": made("return nn.Linear(6, 4)(nn.Linear(8, 6)(self.first(x)))"),
    "a layer without a name and without a bias": made("return nn.Linear(8, 4, bias=False)(self.first(x))"),
    "a layer with a name": made("h = nn.Linear(8, 4)\nreturn h(self.first(x))", named=True),
    "a layer with a name and without a bias": made(
        "h = nn.Linear(8, 4, bias=False)\nreturn h(self.first(x))", named=True
    ),
    "two layers with names": made("h = nn.Linear(8, 6)\ng = nn.Linear(6, 4)\nreturn g(h(self.first(x)))", named=True),
    "a layer of its own": made("return self.first(x)[:, :4]", named=True, found=False),
}

# -- states that are loaded --------------------------------------------------------------------------------------------

LOADED = (
    "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
    "        self.a, self.b = nn.Linear(16, 8), nn.Linear(8, 4)\nnet = Net()\nstate = Net().state_dict()\n"
    "state = {state}\nnet.load_state_dict(state, strict={strict})"
)


def load(state: str, found: bool = True, strict: bool = False) -> Case:
    return Case(loaded.not_loaded, LOADED.format(state=state, strict=strict), found)


STATES = {
    "a state with a prefix": load("{'model.' + k: v for k, v in state.items()}"),
    "a state with two prefixes": load("{'a.model.' + k: v for k, v in state.items()}"),
    "a state without its prefix": load("{k[2:]: v for k, v in state.items()}"),
    "a state of other names": load("{'x' + k: v for k, v in state.items()}"),
    "a state that fits": load("state", False),
    "a state of a part": load("{k: v for k, v in state.items() if k[0] == 'a'}", False),
    "a state with more": load("{**state, 'c.weight': x}", False),
    "a state with a new head": load("{k.replace('b.', 'head.'): v for k, v in state.items()}", False),
    "a state with a prefix for most": load("{('m.' + k if k != 'a.weight' else k): v for k, v in state.items()}"),
    "a state with a prefix for a half": load("{('m.' + k if k[0] == 'a' else 'x' + k): v for k, v in state.items()}"),
    "a state of nothing": load("{}", False),
}

SAMPLER = (
    "from core.utils.data import DataLoader, TensorDataset, WeightedRandomSampler\nw = torch.ones({n})\n"
    "loader = DataLoader(TensorDataset(x, labels), batch_size=8, sampler=WeightedRandomSampler({given}, 64))\n"
    "for xb, yb in loader:\n    z = xb.sum()"
)


def sampler(n: int, found: bool = True, given: str = "w") -> Case:
    return Case(loaded.few_weights, SAMPLER.format(n=n, given=given), found)


WEIGHTS = {
    "weights of the classes": sampler(4),
    "weights of the classes, of a call": sampler(4, given="w.sqrt()"),
    "weights of half the samples": sampler(32),
    "weights of more than half": sampler(33, False),
    "weights of all samples": sampler(64, False),
}

# -- statements that do nothing ----------------------------------------------------------------------------------------


def idle(line: str, found: bool = True) -> Case:
    text = f"net, a = nn.Linear(16, 4), torch.ones(4, 5)\n{line}\nz = net(x)"
    return Case(idle_statements.idle, text, found)


IDLE = {
    **{f"{name} alone on its line": idle(f"net.{name}") for name in ("zero_grad", "eval", "train")},
    "backward alone on its line": idle("net(x).sum().backward"),
    "an attribute alone on its line": idle("net.weight", False),
    "a method that is called": idle("net.eval()", False),
    **{
        f"{call.partition('(')[0]} that nobody takes": idle(f"a.{call}")
        for call in (
            "clamp(0, 1)", "masked_fill(a > 0, 0.0)", "unsqueeze(0)", "view(5, 4)", "reshape(5, 4)",
            "permute(1, 0)", "transpose(0, 1)", "detach()", "clone()", "flatten(0)", "flip(0)", "roll(1, 0)",
            "repeat(2, 1)", "T.contiguous()", "sub(1.0)", "div(2.0)", "mul(2.0)",
        )
    },
    "squeeze that nobody takes": idle("b = torch.ones(1, 5)\nb.squeeze(0)"),
    "expand that nobody takes": idle("b = torch.ones(1, 5)\nb.expand(4, 5)"),
    "squeeze of nothing, for who asks for that shape": idle("a.squeeze(0)", False),
    "a function that nobody takes": idle("torch.clamp(a, 0, 1)"),
    "a function of F that nobody takes": idle("F.normalize(a)"),
    "a sum that nobody takes": idle("a.sum()", False),
    "a result that is written elsewhere": idle("torch.clamp(a, 0, 1, out=a)", False),
    "a result that is taken": idle("b = a.clamp(0, 1)", False),
    "a result that goes on": idle("a.clamp(0, 1).sum()", False),
    "clamped in place": idle("a.clamp_(0, 1)", False),
}  # fmt: skip

# -- steps by hand -----------------------------------------------------------------------------------------------------

BY_HAND = (
    "w, v = P(16, 4), P(4)\nfor k in range(3):\n    loss = F.cross_entropy(x @ w + v, labels)\n"
    "    loss.backward()\n{step}"
)


def by_hand(*lines: str, found: bool = True) -> Case:
    text = BY_HAND.format(step="\n".join(f"    {line}" for line in lines))
    return Case(rebound_parameters.rebound, text, found)


BOUND = {
    "a step that binds a name": by_hand("with torch.no_grad(): w = w - 0.1 * w.grad"),
    "a step that binds a name, of values": by_hand("w = w.data - 0.1 * w.grad"),
    "a step that binds a name, of what is detached": by_hand("w = w.detach() - 0.1 * w.grad"),
    "a step that binds a name, and asks for gradients": by_hand(
        "with torch.no_grad(): w = w - 0.1 * w.grad", "w.requires_grad_()", found=False
    ),
    "a step that binds two names": by_hand(
        "with torch.no_grad():", "    w = w - 0.1 * w.grad", "    v = v - 0.1 * v.grad"
    ),
    "a step that adds": by_hand("with torch.no_grad(): w = w + -0.1 * w.grad"),
    "a step that is a call": by_hand("with torch.no_grad(): w = torch.sub(w, 0.1 * w.grad)"),
    "a step in place": by_hand("with torch.no_grad(): w -= 0.1 * w.grad", "w.grad = None", found=False),
}

# -- differences of neighbours, digits ---------------------------------------------------------------------------------

GRID = "u = torch.randn({n}, {n}).requires_grad_()\ntotal = 0.0\n{loops}\ntotal.backward()"


def grid(loops: str, found: bool = True, n: int = 12) -> Case:
    return Case(ops(1.0, 10.0), GRID.format(loops=loops.replace("N", str(n - 1)), n=n), found)


TWO = "for i in range(N):\n    for j in range(N):\n        total = total + ({code}) ** 2"
NEIGHBOURS = {
    "differences of neighbours below": grid(TWO.format(code="u[i + 1, j] - u[i, j]")),
    "differences of neighbours beside": grid(TWO.format(code="u[i, j + 1] - u[i, j]")),
    "differences of neighbours before": grid(TWO.format(code="u[i, j] - u[i, j - 1]")),
    "differences of neighbours both ways": grid(TWO.format(code="u[i + 1, j] + u[i, j + 1] - 2 * u[i, j]")),
    "differences of what is far": grid(TWO.format(code="u[i - 2, j] - u[i, j]")),
    "differences of corners": grid(TWO.format(code="u[i + 1, j + 1] - u[i, j]")),
    "differences in one loop": grid("for i in range(N):\n    total = total + ((u[i + 1] - u[i]) ** 2).sum()", n=40),
    "no differences of neighbours": grid(TWO.format(code="u[i, j] * 2.0")),
}


def wrapped(share: float) -> Case:
    """A difference of bytes of which a share leaves what a byte holds."""

    def facts(trace: Trace) -> None:
        trace.values.wrapped = dict.fromkeys(trace.values.wrapped, share)

    text = (
        "a = torch.tensor(np.arange(8, dtype=np.uint8))\nb = torch.tensor(np.full(8, 4, np.uint8))\nd = (a - b).float()"
    )
    return Case(lost_digits.wraps, text, share >= 0.01, facts)


def still(runs: int, lost: float, dtype: str = "float32") -> Case:
    """A sum that is 100 and to which so many runs added nothing, of so much in all."""

    def facts(trace: Trace) -> None:
        ((row, one),) = trace.values.still.items()
        one.runs, one.lost, one.value, row.dtype = runs, lost, 100.0, dtype

    text = (
        "t = torch.full((), 256.0, dtype=torch.bfloat16)\nfor k in range(20):\n"
        "    t = t + torch.full((), 0.5, dtype=torch.bfloat16)"
    )
    return Case(lost_digits.stands_still, text, runs >= 8 and lost >= 1.0, facts)


DIGITS = {
    "bytes of which a hundredth is out": wrapped(0.01),
    "bytes of which less is out": wrapped(0.0099),
    "a sum that stood still for 8 runs": still(8, 1.0),
    "a sum that stood still for 7 runs": still(7, 1.0),
    "a sum that lost a little less": still(8, 0.99),
    "a sum that stood still in float16": still(8, 1.0, "float16"),
}

TERMS = NUMBERS | DRAWS | WRITES | DIMS | RATES | LAYERS | STATES | WEIGHTS | IDLE | BOUND | NEIGHBOURS | DIGITS
