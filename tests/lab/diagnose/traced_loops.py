"""Programs for test_traced_rules.py that train, of which all rules are asked but those that go by a clock."""

from __future__ import annotations

from typing import Any

from lab.diagnose import diagnose
from lab.diagnose.finding import Found
from lab.recorder.cell_trace import Trace

from .test_sentences import TIMED
from .traced_case import Case


def whole(trace: Trace, explained: set[Any]) -> list[Found]:
    return [f for f in diagnose(trace) if f.kind not in TIMED]


def program(text: str, found: bool = True) -> Case:
    return Case(whole, text.strip("\n"), found)


NET = "net = nn.Linear(16, 4)\nopt = torch.optim.{kind}(net.parameters(), lr={lr})\n"
HEAD = NET.format(kind="SGD", lr=0.1)
LOSS = "loss = F.cross_entropy(net(x), labels)"


def loop(*lines: str, head: str = HEAD, times: int = 4, found: bool = True, after: str = "") -> Case:
    """A loop of some lines; `L` is the loss."""
    body = "".join(f"    {LOSS if line == 'L' else line}\n" for line in lines)
    return program(f"{head}for k in range({times}):\n{body}{after}", found)


CLEAR, BACK, STEP = "opt.zero_grad()", "loss.backward()", "opt.step()"
TWO = (
    "a, b = nn.Linear(16, 8), nn.Linear(8, 4)\nfirst = torch.optim.SGD(a.parameters(), lr=0.1)\n"
    "second = torch.optim.SGD(b.parameters(), lr=0.1)\n"
)
STEPS = {
    "as it should be": loop("L", CLEAR, BACK, STEP, found=False),
    "no zero_grad": loop("L", BACK, STEP),
    "zero_grad outside the loop": loop("L", BACK, STEP, head=HEAD + "opt.zero_grad()\n"),
    "zero_grad in the loop over epochs": program(
        HEAD + "for e in range(2):\n    opt.zero_grad()\n    for k in range(3):\n"
        "        loss = F.cross_entropy(net(x), "
        "labels)\n        loss.backward()\n        opt.step()"
    ),
    "zero_grad after backward": loop("L", BACK, CLEAR, STEP),
    "zero_grad after backward, by the model": loop("L", BACK, "net.zero_grad()", STEP),
    "step before backward": loop("L", CLEAR, STEP, BACK),
    "step before the loss": loop(STEP, CLEAR, "L", BACK, found=False),
    "no backward": loop("L", CLEAR, STEP),
    "no step": loop("L", CLEAR, BACK),
    "a step that is not called": loop("L", CLEAR, BACK, "opt.step"),
    "a step under a condition": loop("L", CLEAR, BACK, "if k > 9: opt.step()"),
    "clipped after the step": loop("L", CLEAR, BACK, STEP, "nn.utils.clip_grad_norm_(net.parameters(), 1.0)"),
    "clipped before backward": loop("L", CLEAR, "nn.utils.clip_grad_value_(net.parameters(), 1.0)", BACK, STEP),
    "clipped in between": loop("L", CLEAR, BACK, "nn.utils.clip_grad_norm_(net.parameters(), 1.0)", STEP, found=False),
    "gradients of four steps, of which one is left": loop("L", CLEAR, BACK, "if k % 4 == 3: opt.step()", times=8),
    "gradients of four steps": loop(
        "L", "(loss / 4).backward()", "if k % 4 == 3: opt.step(); opt.zero_grad()", times=8, found=False
    ),
    "a step after the loop": loop("L", CLEAR, BACK, after="opt.step()"),
    "an optimizer for each step": loop(
        "opt = torch.optim.Adam(net.parameters(), lr=0.01)", "L", CLEAR, BACK, STEP, head="net = nn.Linear(16, 4)\n"
    ),
    "a model for each step": loop(
        "net = nn.Linear(16, 4)", "opt = torch.optim.Adam(net.parameters(), lr=0.01)", "L", CLEAR, BACK, STEP, head=""
    ),
    "an optimizer of another model": loop("L", CLEAR, BACK, STEP, head=HEAD + "net = nn.Linear(16, 4)\n"),
    "an optimizer of a part": loop(
        "loss = F.cross_entropy(b(a(x)), labels)", "first.zero_grad()", BACK, "first.step()", head=TWO
    ),
    "the first of two optimizers twice": loop(
        "loss = F.cross_entropy(b(a(x)), labels)", "first.zero_grad(); second.zero_grad()", BACK,
        "first.step()", "first.step()", head=TWO,
    ),
    "by hand": loop(
        "loss = F.cross_entropy(x @ w, labels)", BACK, "with torch.no_grad(): w -= 0.1 * w.grad",
        head="w = torch.zeros(16, 4, requires_grad=True)\n",
    ),
    "by hand, and back": loop(
        "loss = F.cross_entropy(x @ w, labels)", BACK, "with torch.no_grad(): w -= 0.1 * w.grad", "w.grad = None",
        head="w = torch.zeros(16, 4, requires_grad=True)\n", found=False,
    ),
    "by hand, a new name": loop(
        "loss = F.cross_entropy(net(x), labels)", "net.zero_grad()", BACK,
        "for p in net.parameters(): p = p - 0.1 * p.grad",
        head="net = nn.Linear(16, 4)\n",
    ),
    "a large learning rate": loop("L", CLEAR, BACK, STEP, head=NET.format(kind="SGD", lr=900.0), times=9),
    "a large learning rate of Adam": loop("L", CLEAR, BACK, STEP, head=NET.format(kind="Adam", lr=30.0), times=9),
    "a tiny learning rate": loop("L", CLEAR, BACK, STEP, head=NET.format(kind="SGD", lr=1e-9)),
    "no learning rate": loop("L", CLEAR, BACK, STEP, head=NET.format(kind="SGD", lr=0.0)),
    "a weight decay": loop(
        "L", CLEAR, BACK, STEP, head="net = nn.Linear(16, 4)\n"
        "opt = torch.optim.SGD(net.parameters(), lr=0.1, weight_decay=5.0)\n",
    ),
    "a batch is taken anew": loop(
        "xb, yb = next(iter(loader))", "loss = F.cross_entropy(net(xb), yb)", CLEAR, BACK, STEP,
        head=HEAD + "from core.utils.data import DataLoader, TensorDataset\n"
        "loader = DataLoader(TensorDataset(x, labels), batch_size=16)\n",
    ),
    "a batch is taken anew, shuffled": loop(
        "xb, yb = next(iter(loader))", "loss = F.cross_entropy(net(xb), yb)", CLEAR, BACK, STEP,
        head=HEAD + "from core.utils.data import DataLoader, TensorDataset\n"
        "loader = DataLoader(TensorDataset(x, labels), batch_size=16, shuffle=True)\n",
    ),
    "the first batch alone": program(
        HEAD + "for e in range(3):\n    for k, i in enumerate([0, 16, 32]):\n"
        "        loss = F.cross_entropy(net(x[i : i + 16]), "
        "labels[i : i + 16])\n        opt.zero_grad()\n        loss.backward()\n        opt.step()\n        break"
    ),
    "a function that returns too early": program(
        HEAD + "def train():\n    for i in [0, 16, 32]:\n"
        "        loss = F.cross_entropy(net(x[i : i + 16]), labels[i : i + 16]"
        ")\n        opt.zero_grad()\n        loss.backward()\n        opt.step()\n        return loss.item()\n"
        "for e in range(3):\n"
        "    train()"
    ),
    "two permutations": loop(
        "p, q = torch.randperm(64), torch.randperm(64)", "loss = F.cross_entropy(net(x[p]), labels[q])", CLEAR, BACK,
        STEP,
    ),
    "two permutations on the line": loop(
        "a, b = x[torch.randperm(64)], labels[torch.randperm(64)]", "loss = F.cross_entropy(net(a), b)", CLEAR, BACK,
        STEP,
    ),
    "one permutation": loop(
        "p = torch.randperm(64)", "loss = F.cross_entropy(net(x[p]), labels[p])", CLEAR, BACK, STEP, found=False
    ),
    "one layer three times": loop(
        "L", CLEAR, BACK, STEP, head="net = nn.Sequential(*[nn.Linear(16, 16)] * 3, nn.Linear(16, 4))\n"
        "opt = torch.optim.SGD(net.parameters(), lr=0.1)\n",
    ),
    "a loss that is a number": loop(
        "loss = torch.tensor(F.cross_entropy(net(x), labels).item(), requires_grad=True)", CLEAR, BACK, STEP
    ),
    "a number that is added": loop(
        "loss = F.cross_entropy(net(x), labels) + 0.1 * net.weight.square().sum().item()", CLEAR, BACK, STEP
    ),
    "a number that is added in place": loop("L", "loss += -net.weight.abs().sum().item() / 3", CLEAR, BACK, STEP),
    "a number that is multiplied": loop(
        "loss = F.cross_entropy(net(x), labels) * net.weight.square().sum().item()", CLEAR, BACK, STEP, found=False
    ),
    "predictions that are cut": loop("loss = F.cross_entropy(net(x).detach(), labels)", CLEAR, BACK, STEP),
    "hidden values that are cut": loop(
        "loss = F.cross_entropy(b(a(x).detach()), labels)", "first.zero_grad(); second.zero_grad()", BACK,
        "first.step(); second.step()", head=TWO,
    ),
    "hidden values through NumPy": loop(
        "h = torch.tensor(a(x).detach().numpy())", "loss = F.cross_entropy(b(h), labels)",
        "first.zero_grad(); second.zero_grad()", BACK, "first.step(); second.step()", head=TWO,
    ),
    "hidden values under no_grad": loop(
        "with torch.no_grad(): h = a(x)", "loss = F.cross_entropy(b(h), labels)",
        "first.zero_grad(); second.zero_grad()", BACK, "first.step(); second.step()", head=TWO,
    ),
    "hidden values that are counted": loop(
        "h = a(x).argmax(1).float()[:, None] * torch.ones(8)", "loss = F.cross_entropy(b(h), labels)",
        "first.zero_grad(); second.zero_grad()", BACK, "first.step(); second.step()", head=TWO,
    ),
    "hidden values that are compared": loop(
        "h = (a(x) > 0).float()", "loss = F.cross_entropy(b(h), labels)",
        "first.zero_grad(); second.zero_grad()", BACK, "first.step(); second.step()", head=TWO,
    ),
    "hidden values that are rounded": loop(
        "h = a(x).round()", "loss = F.cross_entropy(b(h), labels)",
        "first.zero_grad(); second.zero_grad()", BACK, "first.step(); second.step()", head=TWO,
    ),
    "a part of the model is frozen": loop(
        "loss = F.cross_entropy(b(a(x)), labels)", CLEAR, BACK, STEP,
        head="a, b = nn.Linear(16, 8), nn.Linear(8, 4)\nfor p in a.parameters():\n    p.requires_grad = False\n"
        "opt = torch.optim.SGD([*a.parameters(), *b.parameters()], lr=0.1)\n",
    ),
    "a part of the model is not used": loop(
        "L", CLEAR, BACK, STEP,
        head="class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.a, self.b = nn.Linear(16, "
        "4), nn.Linear(16, 4)\n    def forward(self, x):\n        return self.a(x)\nnet = Net()\n"
        "opt = torch.optim.SGD(net.parameters(), lr=0.1)\n",
    ),
    "a part of the model is aside": loop(
        "L", "aside = net.b(x).sum()", CLEAR, BACK, STEP,
        head="class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.a, self.b = nn.Linear(16, "
        "4), nn.Linear(16, 4)\n    def forward(self, x):\n        return self.a(x)\nnet = Net()\n"
        "opt = torch.optim.SGD(net.parameters(), lr=0.1)\n",
    ),
    "weights of one value": loop(
        "L", CLEAR, BACK, STEP, head="net = nn.Sequential(nn.Linear(16, 8), nn.Tanh(), nn.Linear(8, 4))\n"
        "for p in net.parameters():\n    nn.init.constant_(p, 0.1)\nopt = torch.optim.SGD(net.parameters(), lr=0.1)\n",
    ),
    "weights of zero": loop(
        "L", CLEAR, BACK, STEP, head="net = nn.Sequential(nn.Linear(16, 8), nn.Tanh(), nn.Linear(8, 4))\n"
        "for p in net.parameters():\n    p.data.zero_()\nopt = torch.optim.SGD(net.parameters(), lr=0.1)\n",
    ),
    "weights that are too large": loop(
        "loss = F.cross_entropy(F.relu(x @ w) @ v, labels)", CLEAR, BACK, STEP,
        head="w, v = torch.randn(16, 64, requires_grad=True), torch.randn(64, 4, requires_grad=True)\n"
        "opt = torch.optim.SGD([w, v], lr=1e-3)\n",
    ),
    "relus that are dead": loop(
        "L", CLEAR, BACK, STEP, head="net = nn.Sequential(nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 4))\n"
        "nn.init.constant_(net[0].bias, -99.0)\nopt = torch.optim.SGD(net.parameters(), lr=0.1)\n",
    ),
    "tanhs that are full": loop(
        "L", CLEAR, BACK, STEP, head="net = nn.Sequential(nn.Linear(16, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh(), "
        "nn.Linear(8, 4))\nfor k in (0, 2):\n    net[k].weight.data.mul_(90.0)\n"
        "opt = torch.optim.SGD(net.parameters(), lr=0.01)\n",
    ),
    "a scheduler that nobody steps": loop(
        "L", CLEAR, BACK, STEP, head=HEAD + "sched = torch.optim.lr_scheduler.StepLR(opt, 2)\n"
    ),
    "a scheduler that comes first": loop(
        "sched.step()", "L", CLEAR, BACK, STEP, head=HEAD + "sched = torch.optim.lr_scheduler.StepLR(opt, 2)\n"
    ),
    "a scheduler for each batch": program(
        HEAD + "sched = torch.optim.lr_scheduler.StepLR(opt, 2, 0.1)\nfor e in range(2):\n    for k in range(6):\n"
        "        loss = F.cross_entropy(net(x), labels)\n        opt.zero_grad()\n        loss.backward()\n"
        "        opt.step()\n"
        "        sched.step()"
    ),
    "a cosine past its end": loop(
        "L", CLEAR, BACK, STEP, "sched.step()", times=12,
        head=HEAD + "sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=5)\n",
    ),
    "a cosine past its end, for each batch": program(
        HEAD + "sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, 5)\nfor e in range(2):\n"
        "    for k in range(6):\n"
        "        loss = F.cross_entropy(net(x), labels)\n        opt.zero_grad()\n        loss.backward()\n"
        "        opt.step()\n"
        "        sched.step()"
    ),
    "a hook of each step": loop(
        "L", CLEAR, BACK, STEP, "view = net.weight.detach()", "view.clamp(0, 1)", found=True
    ),
    "zero_grad that is not called": loop("L", "opt.zero_grad", BACK, STEP),
    "eval that is not called": program(HEAD + "net.eval\nz = net(x)"),
    "trained in evaluation mode": loop(
        "L", CLEAR, BACK, STEP, head="net = nn.Sequential(nn.Linear(16, 8), nn.Dropout(0.5), nn.Linear(8, 4)).eval()\n"
        "opt = torch.optim.SGD(net.parameters(), lr=0.1)\n",
    ),
    "values that grow": program(
        "w = nn.Linear(16, 16)\nw.weight.data.mul_(1e4)\nh = x\nfor k in range(12):\n    h = w(h)\n"
        "h.square().mean().backward()"
    ),
}  # fmt: skip


def failing(text: str) -> Case:
    """A program that ends in an error, or that an exception of its own ends."""
    return program(text)


OWN = (
    "class Own(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, a, b):\n"
    "        ctx.save_for_backward(a, b)\n"
    "        return a * b\n    @staticmethod\n    def backward(ctx, g):\n        a, b = ctx.saved_tensors\n"
    "        return {back}\n"
    "w, v = P(4, 3), P(4, 3)\nOwn.apply(w, v).sum().backward()"
)
FAILS = {
    "a number's backward": failing("w = P(4)\nloss = w.sum().item()\nloss.backward()"),
    "a number's backward, by float": failing("w = P(4)\nloss = float(w.sum())\nloss.backward()"),
    "a number's backward, added": failing("w = P(4)\nloss = 0.0\nloss += w.sum().item()\nloss.backward()"),
    "a number's mean": failing("w = P(4)\nloss = w.sum().item()\nm = loss.mean()"),
    "a number's backward, from elsewhere": failing("loss = 3.0\nloss.backward()"),
    "too few gradients": failing(OWN.format(back="g * b")),
    "too many gradients": failing(OWN.format(back="g * b, g * a, None, g")),
    "a gradient of another shape": failing(OWN.format(back="(g * b).sum(0)[:2], g * a")),
    "a gradient of another shape, the second": failing(OWN.format(back="g * b, g[0, :2]")),
    "a gradient that drops the loss": program(OWN.format(back="b, a")),
    "a gradient that is None": program(OWN.format(back="g * b, None"), False),
    "an optimizer of nothing": failing("opt = torch.optim.SGD([], lr=0.1)"),
    "an optimizer of a model of nothing": failing(
        "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.parts = [nn.Linear(4, 4)]\n"
        "net = Net()\nopt = torch.optim.SGD(net.parameters(), lr=0.1)"
    ),
    "an optimizer of what is used up": failing(
        "net = nn.Linear(4, 4)\nparams = net.parameters()\nn = len(list(params))\n"
        "opt = torch.optim.SGD(params, lr=0.1)"
    ),
    "an optimizer of a generator that is used up": failing(
        "net = nn.Linear(4, 4)\nparams = (p for p in net.parameters())\nn = sum(p.numel() for p in params)\n"
        "opt = torch.optim.SGD(params, lr=0.1)"
    ),
    "an optimizer of what is frozen": failing(
        "net = nn.Linear(4, 4)\nfor p in net.parameters():\n    p.requires_grad = False\n"
        "opt = torch.optim.SGD([p for p in net.parameters() if p.requires_grad], lr=0.1)"
    ),
    "an optimizer of a module that is frozen": failing(
        "net = nn.Linear(4, 4)\nnet.requires_grad_(False)\ndef wanted(m):\n    return [p for p in m.parameters() if "
        "p.requires_grad]\nopt = torch.optim.SGD(wanted(net), lr=0.1)"
    ),
    "an optimizer of nothing, and what is frozen later": failing(
        "net = nn.Linear(4, 4)\nopt = torch.optim.SGD([], lr=0.1)\nnet.requires_grad_(False)"
    ),
    "an optimizer of a filter of nothing": failing(
        "net = nn.Linear(4, 4)\nparams = filter(lambda p: p.ndim > 5, net.parameters())\n"
        "opt = torch.optim.SGD(params, lr=0.1)"
    ),
    "an optimizer of a result": failing("w = P(4) * 2.0\nopt = torch.optim.SGD([w], lr=0.1)"),
    "an optimizer of a result, two": failing("v = P(4)\nw = v.tanh()\nopt = torch.optim.SGD([v, w], lr=0.1)"),
    "no gradient yet": failing("w = P(4)\nstep = 0.1 * w.grad"),
    "no gradient after backward": failing("w, v = P(4), P(4)\nv.sum().backward()\nstep = 0.1 * w.grad"),
    "no gradient after two": failing(
        "w, v = P(4), P(4)\nv.sum().backward()\nv.mean().backward()\nstep = 0.1 * w.grad"
    ),
    "no gradient of an attribute": failing("net = nn.Linear(4, 4)\nnet.weight.grad.zero_()"),
    "no gradient of a result": failing("w = P(4)\nw = w * 2.0\nw.sum().backward()\nw -= 0.1 * w.grad"),
    "a plateau without a figure": failing(
        "net = nn.Linear(4, 4)\nopt = torch.optim.SGD(net.parameters(), lr=0.1)\n"
        "sched = torch.optim.lr_scheduler.ReduceLROnPlateau(opt)\nsched.step()"
    ),
    "a key that is not there": failing("sizes = {'a': 3}\nn = sizes['b']"),
    "an error of an integer": failing("n = int('x')"),
    "an assertion": failing("assert x.shape[0] == 3"),
    "an assertion that says why": failing("assert x.shape[0] == 3, 'three rows'"),
    "an index that is not there": failing("parts = [1, 2]\nparts[5]"),
    "a division of numbers": failing("n = 1 / 0"),
    "tensors to a loss's constructor": failing("net = nn.Linear(16, 4)\n"
    "loss = nn.CrossEntropyLoss(net(x), labels)\nloss.backward()"),
    "tensors to an activation's constructor": failing("net = nn.Linear(16, 4)\nh = nn.ReLU(x)\nz = net(h)"),
    "tensors to a constructor, asked for its shape": failing("h = nn.Tanh(x)\nn = h.shape"),
    "a tuple to a layer": failing("rnn, net = nn.GRU(16, 8), nn.Linear(8, 4)\nout = rnn(x)\nz = net(out)"),
    "a tuple's shape": failing("rnn = nn.LSTM(16, 8)\nout = rnn(x)\nn = out.shape"),
    "no forward": failing("class Net(nn.Module):\n    pass\nnet = Net()\nnet(x)"),
    "a forward that is misspelt": failing(
        "class Net(nn.Module):\n    def foward(self, x):\n        return x\nnet = Net()\nnet(x)"
    ),
    "a batch that is flattened": failing("net = nn.Linear(16, 4)\nz = net(x.flatten())"),
    "a mean of whole numbers": failing("m = labels.mean()"),
    "a view that does not fit": failing("t = x.view(3, -1)"),
    "shapes that do not go together": failing("z = x + torch.ones(3)"),
    "a product that does not fit": failing("z = x @ torch.ones(3, 4)"),
    "a loss of several values": failing("w = P(16, 4)\n(x @ w).backward()"),
    "a loss without a gradient": failing("z = x.sum()\nz.backward()"),
    "whole numbers that want a gradient": failing("t = torch.tensor([1, 2], requires_grad=True)"),
    "a parameter in place": failing("w = P(4)\nw += 1.0"),
    "a truth of several": failing("if x > 0:\n    pass"),
    "an item of several": failing("n = x.item()"),
    "NumPy of a graph": failing("w = P(4)\na = (w * 2.0).numpy()"),
}  # fmt: skip

LOOPS = STEPS | FAILS
