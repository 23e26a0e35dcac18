"""The ops that a rule knows by name: of a recorded program one op is called by each of the names in turn.

Core makes one op of what PyTorch has several of, and PyTorch others than core; a rule has to know all their names.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from lab.diagnose.evaluation import judged_wrongly
from lab.diagnose.graph import cut
from lab.diagnose.losses import crossed_shapes, loss_terms, losses
from lab.diagnose.models import attention_masks, dimension_order
from lab.diagnose.speed import slow_handmade, slow_products, slow_python
from lab.diagnose.training import gradient_scale, module_modes, start_values
from lab.diagnose.values import lost_digits
from lab.diagnose.values.nonfinite import first_nonfinite
from lab.recorder.cell_trace import Trace

from .test_slow_code import timed

Space = dict[str, Any]


class Known(NamedTuple):
    """A rule, a program in which it finds something, an op of that, and the names by which the rule knows it; by
    `others` it finds nothing. Of several rows of the op those on a line alone are meant, where one is given."""

    rule: Callable[..., Any]
    text: str
    op: str
    names: str
    others: str = "an_op"
    line: int | None = None


def slow(idiom: Any) -> Callable[..., Any]:
    """An idiom of slow code as a rule, by a clock of one second for each run of an op."""
    return lambda trace, explained: list(idiom(timed(trace)))


def words(said: str) -> Callable[..., Any]:
    """What is not finite, where that is told in such words."""
    return lambda trace, explained: [f for f in first_nonfinite(trace, explained) if said in f.message + f.remedy]


GROWS = "t = torch.full((4,), 1e-30, requires_grad=True)\nz = (t * 1e25) * 1e25\nz.sum().backward()"
ROOT = "t = torch.zeros(4, requires_grad=True)\nz = t.sqrt()\nz.sum().backward()"
ZERO = "t = torch.zeros(4, requires_grad=True)\nz = t.log()\nz.sum().backward()"
SCORES = (
    "q, h = nn.Linear(16, 16), torch.randn(2, 5, 16)\ns = q(h) @ h.transpose(1, 2)\n"
    "keep = (torch.arange(5)[None] < torch.tensor([[3], [4]])).float()\n"
)
ADDED = SCORES + "w = torch.softmax((s + keep[:, None]).clone(), -1)"
TRIANGLE = SCORES + "w = torch.softmax(s + torch.ones(5, 5).tril(), -1)"
CRITIC = (
    "critic, made = nn.Linear(16, 1), nn.Linear(16, 16)\n"
    "loss = {real} + critic(made(x).detach()).mean()\nloss.backward()"
)
VAE = (
    "e, d = nn.Linear(16, 4), nn.Linear(2, 16)\nz = e(x)\nm, v = z[:, :2] / 100, z[:, 2:] / 100\nr = d(m)\n"
    "loss = {mean} + {kl}\nloss.backward()"
)
KL = "(0.5 * (v.exp() + m.{square} - 1 - v).sum(1)).mean()"
ACTOR = (
    "net, v = nn.Linear(16, 4), nn.Linear(16, 1)\nadv = torch.randn(64) - v(x).squeeze(1)\n"
    "logp = F.log_softmax(net(x), 1).gather(1, labels[:, None]).squeeze(1)\n(-(logp * adv)).mean().backward()"
)
COLUMN = "net, t = nn.Linear(16, 1), torch.randn(64)\n((net(x) - t) ** 2).mean().backward()"
WEIGHED = (
    "net, w = nn.Linear(16, 4), torch.ones(64, 1)\nl = F.cross_entropy(net(x), labels, reduction='none')\n"
    "(l * w).mean().backward()"
)
LIKELY = "net, w = nn.Linear(16, 1), torch.ones(64)\n(torch.log(net(x).exp()) * w).mean().backward()"
SOFT = "net = nn.Linear(16, 4)\nF.cross_entropy(F.softmax(net(x), 1), labels).backward()"
BINARY = "net, t = nn.Linear(16, 1), (x[:, :1] > 0).float()\nF.binary_cross_entropy_with_logits({given}).backward()"
NLL = "net = nn.Linear(16, 4)\nF.nll_loss(F.softmax(net(x), 1), labels).backward()"
KL_DIV = (
    "net, t = nn.Linear(16, 4), torch.randn(64, 4)\n"
    "F.kl_div(F.log_softmax(net(x), 1), F.log_softmax(t, 1), reduction='sum').backward()"
)
ALONG = "net = nn.Linear(16, 4)\np = F.softmax(net(x), 0)\n{by}(p)[torch.arange(64), labels].log().mean().backward()"
ACROSS = "net = nn.Linear(16, 4)\nF.nll_loss((F.softmax(net(x), 0) + 1e-8).log(), labels).backward()"
HALF = (
    "net, t = nn.Linear(16, 1), (x[:, 0] > 0).float()\nF.binary_cross_entropy_with_logits(net(x)[:, 0], t).backward()\n"
    "acc = ((net(x)[:, 0] > 0.5) == t).float().mean()"
)
CROSSED = "net = nn.Linear(16, 1)\nd = (net(x) - x[:, 0]).abs()\nm = d.mean()\nnet(x).square().mean().backward()"
JUDGED = (
    "net = nn.Sequential(nn.Linear(16, 8), nn.Dropout(0.5), nn.Linear(8, 4))\n"
    "F.cross_entropy(net(x), labels).backward()\nwith torch.no_grad():\n    best = net(x).argmax(1)"
)
FIGURE = (
    "net = nn.Sequential(nn.Linear(16, 8), nn.Dropout(0.5), nn.Linear(8, 1))\n"
    "F.mse_loss(net(x), x[:, :1]).backward()\nwith torch.no_grad():\n    off = (net(x) - x[:, :1]).mean().item()"
)
DRAWN = (
    "net = nn.Sequential(nn.Linear(16, 8), nn.Dropout(0.5), nn.Linear(8, 4))\n"
    "F.cross_entropy(net(x), labels).backward()\nwith torch.no_grad():\n    many = []\n    for k in range(4):\n"
    "        many.append(net(x))\n    all_of = torch.stack(many)\n    wide, best = all_of.std(0), all_of.argmax(-1)"
)
FUNCTIONAL = (
    "a = nn.Linear(16, 4)\nF.cross_entropy(F.dropout(a(x), 0.5), labels).backward()\nwith torch.no_grad():\n"
    "    best = F.dropout(a(x), 0.5).argmax(1)"
)
ROUNDED = "A = P(16, 8)\nloss = (x @ A).round().square().mean()\nloss.backward()"
DEAD = "A, B = P(16, 8), P(8, 2)\nh = core.relu(x @ A - 100)\nloss = (h @ B - 1).square().mean()\nloss.backward()"
ASIDE = "net, aim = nn.Linear(16, 4), nn.Linear(16, 4)\nt = aim(x).detach()\n(net(x) - t).square().mean().backward()"
DRAW = "net = nn.Linear(16, 4)\np = torch.sigmoid(net(x))\nz = torch.bernoulli(p)\n(z * x[:, :4]).sum().backward()"
REACH = "net, t = nn.Linear(16, 4), 5 * torch.randn(64, 4)\nF.mse_loss(torch.sigmoid(net(x)), t).backward()"
OUTSIDE = (
    "net, t = nn.Linear(16, 1), 3 * (x[:, :1] > 0).float()\nF.binary_cross_entropy_with_logits(net(x), t).backward()"
)
LAST = (
    "net, t = nn.Linear(16, 4), torch.randint(0, 4, (16, 4))\n"
    "F.cross_entropy(net(x).view(16, 4, 4).relu() + 1, t).backward()"
)
TIME = (
    "rnn, head = nn.GRU(16, 8), nn.Linear(8, 4)\no, _ = rnn(torch.randn(7, 5, 16))\n"
    "head(o.sum(1)).square().mean().backward()"
)
BATCH_TIME = TIME.replace("o.sum(1)", "o[:, -1]")
BYTES = (
    "a, b = torch.tensor(np.arange(8, dtype=np.uint8)), torch.tensor(np.full(8, 4, np.uint8))\nd = (a - b)\ne = d.abs()"
)
SQUARES = "m, s = (x + 1e4).mean(0), (x + 1e4).square().mean(0)\nv = s - m.square()"
GIVEN = "h = torch.ones(16, 16)\nfor k in range(5):\n    c = h @ x.T"
ONE_HOT = "w = torch.randn(4, 8)\nfor k in range(5):\n    e = F.one_hot(labels, 4).float() @ w"
RANK = "a, b, v = torch.ones(32, 2), torch.ones(2, 32), torch.ones(32, 1)\ny = (a @ b) @ v"
TURNED = "a, b, v = torch.ones(32, 2), torch.ones(2, 32), torch.ones(32, 1)\ny = (a @ b).mul(2.0) @ v"
INVERSE = "d = torch.randn(12, 12)\ny = torch.linalg.inv(d) @ x.T[:12]"
CELL_BY_HAND = (
    "U, V, h = P(16, 16), P(16, 16), torch.zeros(64, 16)\ns = torch.randn(64, 40, 16)\nfor t in range(40):\n"
    "    h = core.tanh(h @ U + s[:, t] @ V)\nh.sum().backward()"
)
NORM = "z = torch.randn(6, 8, requires_grad=True)\ny = z * torch.rsqrt(z.pow(2).mean(-1, keepdim=True) + 1e-6)"
ATTENTION = "q = torch.randn(2, 3, 5, 4)\ny = torch.softmax({between}, -1) @ q"


def hot(trace: Trace, explained: set[Any]) -> Any:
    """One-hot products as if the values had been looked at."""
    for row in trace.rows:
        if row.op in ("matmul",):
            trace.one_hot[row] = (0, 4)
    return [s.share for s in slow_products.one_hot(timed(trace)) if s.share > 0.7]


KNOWN: dict[str, Known] = {
    "between a mask and its softmax": Known(
        attention_masks.not_applied, ADDED, "clone", "dropout|cast|float|to|type_as|div|contiguous|clone", "exp"
    ),
    "a mask's values": Known(
        attention_masks.not_applied,
        ADDED,
        "cast",
        "eq|ne|lt|le|gt|ge|cast|float|to|where|logical_not|type_as|tril|triu",
        "mul",
    ),
    "a mask that is put to the scores": Known(
        attention_masks.not_applied, ADDED, "add", "add|add_|mul|mul_", "sub|div"
    ),
    "a triangle": Known(attention_masks.not_applied, TRIANGLE, "tril", "tril|triu", "mul"),
    "a mean of a critic's scores": Known(
        loss_terms.same_sign, CRITIC.format(real="critic(x).mean()"), "mean", "mean|sum|cast|float|to|double", "exp|max"
    ),
    "a critic's terms": Known(
        loss_terms.same_sign, CRITIC.format(real="critic(x).mean()"), "add", "add", "sub|mul|div"
    ),
    "a critic's score times a number": Known(
        loss_terms.same_sign, CRITIC.format(real="critic(x).mean() * 2"), "mul", "mul|div|add|sub", "neg|exp"
    ),
    "a critic's score that is turned twice": Known(
        loss_terms.same_sign, CRITIC.format(real="-(critic(x).mean() * -1)"), "neg", "neg|mul|div", "exp|add|sub"
    ),
    "what comes off the graph for a critic": Known(
        loss_terms.same_sign, CRITIC.format(real="critic(x).mean()"), "~detach", "~detach", ""
    ),
    "a square of a divergence": Known(
        loss_terms.summed_beside_averaged,
        VAE.format(mean="F.mse_loss(r, x)", kl=KL.format(square="pow(2)")),
        "pow",
        "pow|square|mul",
        "sqrt|abs",
    ),
    "a reconstruction by hand": Known(
        loss_terms.summed_beside_averaged,
        VAE.format(mean="(r - x).abs().mean()", kl=KL.format(square="pow(2)")),
        "abs",
        "pow|square|abs|squared_error|absolute_error|smooth_l1_error|huber_error|mse_loss|l1_loss",
        "exp",
    ),
    "half of a divergence": Known(
        loss_terms.summed_beside_averaged,
        VAE.format(mean="F.mse_loss(r, x)", kl=KL.format(square="pow(2)")),
        "mul",
        "mul|div",
        "add|pow",
        5,
    ),
    "how an action's probability is picked": Known(
        loss_terms.advantage_on_graph, ACTOR, "gather", "gather|index|getitem|take_along_dim|neg|squeeze", "exp|mul"
    ),
    "what gives log-probabilities": Known(
        loss_terms.advantage_on_graph, ACTOR, "log_softmax", "log_softmax", "softmax"
    ),
    "an advantage": Known(loss_terms.advantage_on_graph, ACTOR, "sub", "sub", "add|mul"),
    "a policy's product": Known(loss_terms.advantage_on_graph, ACTOR, "mul", "mul", "add|div"),
    "a state's worth": Known(loss_terms.advantage_on_graph, ACTOR, "linear", "linear", "conv2d"),
    "a difference in a loss": Known(
        losses.broadcast,
        COLUMN,
        "sub",
        "sub|squared_error|absolute_error|smooth_l1_error|huber_error|binary_entropy|binary_entropy_logits|pow|"
        "mse_loss|l1_loss|smooth_l1_loss|huber_loss|binary_cross_entropy|binary_cross_entropy_with_logits",
        "add|div",
    ),
    "losses of single samples": Known(
        losses.broadcast,
        WEIGHED,
        "cross_entropy",
        "squared_error|absolute_error|smooth_l1_error|huber_error|binary_entropy|binary_entropy_logits|mse_loss|"
        "l1_loss|smooth_l1_loss|huber_loss|binary_cross_entropy|binary_cross_entropy_with_logits|cross_entropy|"
        "nll_loss|kl_div",
        "sub|pow|exp",
    ),
    "weights of single samples": Known(losses.broadcast, WEIGHED, "mul", "mul|div|add", "maximum"),
    "a logarithm in a likelihood": Known(
        losses.broadcast, LIKELY, "log", "log|log1p|log_softmax|log_sigmoid|logsigmoid|gather", "exp|relu"
    ),
    "a product in a likelihood": Known(losses.broadcast, LIKELY, "mul", "mul", "add|div"),
    "a loss with a softmax of its own": Known(
        losses.doubled, SOFT, "cross_entropy", "cross_entropy|log_softmax", "mse_loss"
    ),
    "probabilities before cross_entropy": Known(losses.doubled, SOFT, "softmax", "softmax|sigmoid|relu", "tanh"),
    "a loss with a sigmoid of its own": Known(
        losses.doubled,
        BINARY.format(given="torch.sigmoid(net(x)), t"),
        "binary_entropy_logits",
        "binary_entropy_logits|binary_entropy_logits_pos|binary_cross_entropy_with_logits",
        "binary_entropy",
    ),
    "probabilities before a loss of logits": Known(
        losses.doubled, BINARY.format(given="torch.sigmoid(net(x)), t"), "sigmoid", "sigmoid|softmax|relu", "tanh|elu"
    ),
    "a loss of log-probabilities": Known(losses.doubled, NLL, "nll_loss", "nll_loss|kl_div|divergence", "mse_loss"),
    "a loss of a target in logarithms": Known(losses.doubled, KL_DIV, "divergence", "kl_div|divergence", "mse_loss"),
    "a loss whose prediction comes first": Known(
        losses.doubled,
        BINARY.format(given="t, net(x)"),
        "binary_entropy_logits",
        "cross_entropy|binary_cross_entropy|binary_entropy|binary_entropy_logits|binary_entropy_logits_pos|"
        "binary_cross_entropy_with_logits",
        "mse_loss",
    ),
    "what hands probabilities on": Known(
        losses.doubled, ALONG.format(by="torch.neg"), "neg", "log|add|clamp|neg|mul|div|dropout", "exp|cumsum"
    ),
    "how a class is picked": Known(
        losses.doubled, ALONG.format(by="torch.neg"), "index", "gather|take_along_dim|getitem|index", "mul"
    ),
    "a softmax over the samples": Known(
        losses.doubled, ALONG.format(by="torch.neg"), "softmax", "softmax|log_softmax", "sigmoid"
    ),
    "between a softmax and nll_loss": Known(losses.doubled, ACROSS, "add", "add|clamp", "mul"),
    "a comparison with a half": Known(
        judged_wrongly.logits_for_probabilities, HALF, "gt", "gt|ge|lt|le|round", "eq|sub", 3
    ),
    "a layer that gives logits": Known(
        judged_wrongly.logits_for_probabilities, HALF, "linear", "linear|addmm|conv1d|conv2d|matmul|mm", "embedding"
    ),
    "what puts two shapes together": Known(
        crossed_shapes.crossed,
        CROSSED,
        "sub",
        "sub|add|mul|div|eq|ne|lt|gt|le|ge|pow|minimum|maximum|sub_|min|max",
        "atan2|squared_error",
        2,
    ),
    "what goes element by element": Known(
        crossed_shapes.crossed,
        CROSSED,
        "abs",
        "abs|pow|square|cast|float|double|to|neg|mul|div|add|sub|exp|log|clamp|sqrt|where|minimum|maximum|min|max|type|int|"
        "long|squared_error|relu|eq|mse_loss|l1_loss|smooth_l1_loss|huber_loss",
        "matmul|cumsum",
    ),
    "what makes one number": Known(
        crossed_shapes.crossed,
        CROSSED,
        "mean",
        "mean|sum|nanmean|nansum|mse_loss|l1_loss|smooth_l1_loss|huber_loss",
        "max|std",
        3,
    ),
    "what is judged by": Known(
        module_modes.wrong_mode, JUDGED, "argmax", "argmax|eq|topk|max|gt|ge|round", "softmax|exp"
    ),
    "a model's figure": Known(
        module_modes.wrong_mode,
        FIGURE,
        "sub",
        "sub|squared_error|absolute_error|smooth_l1_error|huber_error|binary_entropy|binary_entropy_logits|mse_loss|"
        "l1_loss|smooth_l1_loss|huber_loss|binary_cross_entropy|binary_cross_entropy_with_logits|cross_entropy|"
        "nll_loss|kl_div|eq|ne|cosine_similarity|triplet_margin_loss|hinge_embedding_loss",
        "pow|exp|add",
    ),
    "a function that drops": Known(
        module_modes.wrong_mode, FUNCTIONAL, "dropout", "dropout|alpha_dropout|feature_dropout", "add", 4
    ),
    "a step function": Known(gradient_scale.scale, ROUNDED, "round", "round|floor|ceil|trunc|sign", "relu|mul"),
    "what gives nothing but zeros": Known(
        gradient_scale.scale,
        DEAD,
        "relu",
        "relu|relu_|relu6|clamp|clamp_|clamp_min|maximum|threshold|hardtanh",
        "tanh|mul",
    ),
    "a draw": Known(cut.drawn, DRAW, "constant", "constant|bernoulli|normal|poisson|binomial", "mul|rand"),
    "a target out of reach": Known(
        start_values.out_of_reach,
        REACH,
        "squared_error",
        "sub|squared_error|absolute_error|smooth_l1_error|huber_error|mse_loss|l1_loss|smooth_l1_loss|huber_loss",
        "pow|binary_entropy|binary_entropy_logits|binary_cross_entropy|add",
    ),
    "a last activation": Known(start_values.out_of_reach, REACH, "sigmoid", "relu|sigmoid|tanh|softmax", "gelu|linear"),
    "targets that are no probabilities": Known(
        start_values.targets_outside,
        OUTSIDE,
        "binary_entropy_logits",
        "binary_entropy_logits|binary_entropy_logits_pos|binary_cross_entropy_with_logits",
        "binary_entropy|mse_loss",
    ),
    "classes in the last dimension": Known(
        dimension_order.classes_last, LAST, "add", "linear|matmul|addmm|add", "transpose|relu"
    ),
    "a loss over classes": Known(
        dimension_order.classes_last, LAST, "cross_entropy", "cross_entropy|nll_loss", "mse_loss"
    ),
    "what loses the samples": Known(
        dimension_order.samples_as_time,
        TIME,
        "sum",
        "mean|sum|max|amax|select|getitem|index|logsumexp",
        "exp|cumsum",
        3,
    ),
    "bytes that go on as a size": Known(
        lost_digits.wraps, BYTES, "abs", "abs|float|cast|to|mean|sum|pow|div|double|item", "eq|remainder"
    ),
    "one-hot rows": Known(
        hot,
        ONE_HOT,
        "one_hot_rows",
        "one_hot_rows|one_hot|scatter_|eq|cast|to|float|view|reshape|type|double|half|unsqueeze|squeeze|flatten",
        "mul|exp",
    ),
    "products one after the other": Known(
        slow(slow_products.order), RANK, "matmul", "matmul|mm|__matmul__|bmm", "einsum"
    ),
    "between two products": Known(
        slow(slow_products.order),
        TURNED,
        "mul",
        "mul|cast|to|float|view|reshape|type|double|half|unsqueeze|squeeze|flatten|transpose|t|permute|contiguous|mT|T|"
        "numpy_T|getitem",
        "exp|relu",
    ),
    "an inverse": Known(
        slow(slow_products.decompositions),
        INVERSE,
        "linalg_inv_ex",
        "inverse|inv|linalg_inv|linalg_inv_ex",
        "pinv|cholesky",
    ),
    "a recurrent cell's product": Known(
        slow(slow_python.stepped), CELL_BY_HAND, "matmul", "linear|matmul|mm|addmm|gru_cell|lstm_cell", "einsum"
    ),
    "a recurrent cell's bend": Known(
        slow(slow_python.stepped), CELL_BY_HAND, "tanh", "sigmoid|tanh|tanh_|gru_cell|lstm_cell", "relu|exp|rnn_cell"
    ),
    "a cell that is fed what it gave": Known(
        slow(slow_python.stepped), CELL_BY_HAND, "add", "add|sub", "argmax|max|max_dim|multinomial|topk|where"
    ),
    "a layer whose weight is a product": Known(
        slow(slow_products.order),
        "a, b = torch.ones(32, 2), torch.ones(2, 32)\ny = F.linear(torch.ones(1, 32), a @ b)",
        "linear",
        "linear",
        "einsum|add",
    ),
    "what grows backward": Known(
        words("grew on its way"),
        GROWS,
        "mul",
        "matmul|linear|mul|add|sub|sum|expand|conv|tanh|relu|sigmoid",
        "gelu|exp",
    ),
    "a root's slope": Known(words("a small eps inside the root"), ROOT, "sqrt", "sqrt|rsqrt|norm|pow", "exp|log|div"),
    "a division's slope": Known(words("choose with where()"), ROOT, "sqrt", "div", "exp|log|sqrt"),
    "a logarithm's slope": Known(words("the argument above 0"), ROOT, "sqrt", "log", "exp|log2|sqrt"),
    "what compares with data": Known(
        words("Bring the data to a smaller range"),
        "t = P(4)\nz = F.mse_loss(t, torch.full((4,), 1e25))\nz.backward()",
        "squared_error",
        "squared_error|mse_loss|absolute_error|l1_loss|mean|sum",
        "exp|matmul",
    ),
    "a logarithm": Known(words("the argument above 0"), ZERO, "log", "log|log2|log10", "sqrt|div"),
    "a root": Known(words("a small eps inside the root"), ZERO, "log", "sqrt|rsqrt", "log|div"),
    "what overflows by its power": Known(
        words("Subtract the maximum first"),
        "t = P(4)\nz = (t + 1e3).exp()\nz.sum().backward()",
        "exp",
        "exp|exp2|expm1|cosh|sinh",
        "log|tan",
    ),
    "a spread of a single value": Known(
        words("drop_last=True"),
        "t = P(4, 3)\nz = t[:1].std(0)\nz.sum().backward()",
        "std",
        "std|var|std_mean|var_mean",
        "sum",
    ),
    "a product of many": Known(
        words("Add up logarithms"),
        "t = torch.full((2, 4), 1e-30, requires_grad=True)\nz = t.prod(1).log()\nz.sum().backward()",
        "prod",
        "prod|cumprod",
        "sum|mul",
    ),
    "what has an end": Known(
        words("Clamp the argument"),
        "t = P(4)\nz = torch.asin(t + 9.0)\nz.sum().backward()",
        "asin",
        "asin|acos|atanh",
        "tan",
    ),
    "what divides": Known(
        words("a division by 0"),
        "t = P(4)\nz = torch.remainder(t, torch.zeros(4))\nz.sum().backward()",
        "remainder",
        "div|remainder|fmod|floor_divide",
        "mul|reciprocal",
    ),
    "what writes": Known(
        words("writes NaN into"),
        "w = P(4)\nz = w * 2.0\nz[1] = float('nan')\nz.sum().backward()",
        "copy",
        "copy|copy_|setitem_|fill|fill_|index_put_",
        "mul",
    ),
    "what fills": Known(
        words("filled with NaN"),
        "t = P(4)\nz = torch.where(t > -9.0, torch.zeros(4) / torch.zeros(4), t)\nz.sum().backward()",
        "div",
        "where|masked_fill|masked_fill_|copy|fill",
        "div|mul",
    ),
    "a mask that hides all": Known(
        words("over nothing but"),
        "t = P(2, 3)\nz = F.softmax(t.masked_fill(t > -9.0, -np.inf), 1)\nz.sum().backward()",
        "softmax",
        "softmax|log_softmax",
        "mul",
    ),
    "between the scores and their softmax": Known(
        slow(slow_handmade.written),
        ATTENTION.format(between="(q @ q.transpose(-2, -1)) / 2.0"),
        "div",
        "mul|div|add|masked_fill|where|dropout|float|cast|to|type_as",
        "exp|relu",
    ),
}


@pytest.mark.parametrize("what", KNOWN)
def test_the_ops_that_are_known(what: str, traced: Any, space: Space) -> None:
    known = KNOWN[what]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trace = traced(known.text, space)
    assert trace.error is None, trace.error
    rows = [row for row in trace.rows if row.op == known.op and known.line in (None, row.line)]
    assert rows, {row.op for row in trace.rows}
    told = {}
    for name in filter(None, f"{known.names}|{known.others}".split("|")):
        for row in rows:
            row.op = name
        told[name] = bool(known.rule(trace, set()))
    assert [name for name, found in told.items() if found] == [n for n in told if n in known.names.split("|")]
