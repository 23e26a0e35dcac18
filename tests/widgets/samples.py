"""Records such as a recorder makes, built by hand: an MLP's training cell, a cut, vanishing gradients, a small GPT."""

import math
import random

from widgets.compiled_functions import CompiledFunction, CompiledPiece
from widgets.record import (
    Change,
    Comparison,
    ErrorRow,
    Finding,
    GradientRow,
    Held,
    KernelRow,
    LineRow,
    Machine,
    Memory,
    MemoryRow,
    OpRow,
    Page,
    Record,
    Run,
    Stats,
    TensorRow,
)

ENVIRONMENT = {"python": "3.11.7", "gradlab": "0.1.0", "cpu": "AMD EPYC 9R14, 8 threads"}


class Builder:
    """Adds rows one call at a time and sums them up at the end."""

    def __init__(self, title: str, source: str, seed: int = 0):
        self.record = Record(title=title, source=source, device="cpu", environment=ENVIRONMENT)
        self.random = random.Random(seed)
        self.module: list[str] = []

    def leaf(self, name, kind, *shape):
        rows = self.record.tensors
        rows.append(TensorRow(len(rows), name, kind, list(shape), "float32", kind == "parameter"))
        return f"t{len(rows) - 1}"

    def parameter(self, name, *shape, log2_rms=-9.0, flags=(), update=1e-3):
        path, _, _last = name.rpartition(".")
        row = GradientRow(name, path, list(shape), "float32", flags=list(flags), weight_rms=0.05)
        if "none" not in flags:
            numel = math.prod(shape)
            rms = 2.0**log2_rms
            row.rms, row.norm, row.mean, row.std = rms, rms * numel**0.5, rms * 0.02, rms * 0.998
            row.max_abs, row.zeros, row.update_ratio, row.count = rms * 4.2, 0.02, update, 30
            row.histogram = [round(numel * math.exp(-(((b - 40.5 - log2_rms) / 2.2) ** 2)) / 4) for b in range(64)]
        self.record.gradients.append(row)
        return self.leaf(name, "parameter", *shape)

    def op(self, name, line, inputs, shape, *, count=30, ms=0.05, backward=2.0, code="", col=4, flags=(), grad=True):
        rows = self.record.ops
        forward = ms * self.random.uniform(0.8, 1.25)
        line_text = self.record.source.splitlines()[line - 1] if line else ""
        start = line_text.find(code) if code else -1
        size = 4 * math.prod(shape)
        rows.append(
            OpRow(
                len(rows), name, count, line, start if start >= 0 else col, line,
                start + len(code) if start >= 0 else None, code=code, module=".".join(self.module),
                kernel=f"{name}_f32", backend="C", shape=list(shape), dtype="float32", inputs=list(inputs),
                forward_ms=forward, backward_ms=forward * backward if grad else 0.0,
                forward_max_ms=forward / count * 1.7, size_bytes=size, requires_grad=grad, flags=list(flags),
                stats=Stats(-2.31, 2.87, 0.013, 0.71, 0.0 if name != "relu" else 0.48, 0),
            )
        )  # fmt: skip
        return f"o{len(rows) - 1}"

    def done(self, update_line=None, update_ms=0.0, other_ms=0.0):
        record = self.record
        lines: dict[int, LineRow] = {}
        kernels: dict[tuple, KernelRow] = {}
        for op in record.ops:
            row = lines.setdefault(op.line, LineRow(op.line))
            row.forward_ms, row.backward_ms = row.forward_ms + op.forward_ms, row.backward_ms + op.backward_ms
            row.count += op.count
            for suffix, ms in (("", op.forward_ms), ("_backward", op.backward_ms)):
                if ms:
                    name = f"{op.op}{suffix}_f32"
                    kernel = kernels.setdefault((name, op.op), KernelRow(name, op.backend, op.op))
                    kernel.count, kernel.total_ms = kernel.count + op.count, kernel.total_ms + ms
                    kernel.mean_us = 1e3 * kernel.total_ms / kernel.count
                    kernel.bytes_per_s = op.size_bytes * 3 * op.count / (ms / 1e3)
        if update_line:
            row = lines.setdefault(update_line, LineRow(update_line))
            row.forward_ms, row.count = row.forward_ms + update_ms, row.count + 30
            kernels[("adamw", "")] = KernelRow("adamw_step_f32", "C", "adamw", 180, update_ms, update_ms / 0.18, 2.1e10)
        record.lines = [lines[key] for key in sorted(lines)]
        record.kernels = sorted(kernels.values(), key=lambda row: -row.total_ms)
        record.forward_ms = sum(op.forward_ms for op in record.ops)
        record.backward_ms = sum(op.backward_ms for op in record.ops)
        record.update_ms = update_ms
        record.ops_ms = record.forward_ms + record.backward_ms + update_ms
        record.wall_ms = record.ops_ms * 1.06 + other_ms
        record.folded = any(op.count > 1 for op in record.ops)
        return record


MLP_SOURCE = """\
for epoch in range(10):
    for images, labels in loader:          # 30 steps in all
        logits = model(images)
        loss = F.cross_entropy(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
print(f"loss {loss.item():.3f}")"""


def linear(b, name, x, line, rows, fan_in, fan_out, code, ms=0.4, **parameter):
    last = name.rpartition(".")[2]
    weight = b.parameter(f"{name}.weight", fan_out, fan_in, **parameter)
    bias = b.parameter(f"{name}.bias", fan_out, **parameter)
    b.module.append(last)
    y = b.op("linear", line, [x, weight, bias], (rows, fan_out), ms=ms, code=code)
    b.module.pop()
    return y


def mlp(findings=True):
    """A healthy training cell of four linear layers with LayerNorm and dropout."""
    b = Builder("In [7]", MLP_SOURCE)
    images, labels = b.leaf("images", "input", 64, 64), b.leaf("labels", "input", 64)
    b.module.append("model")
    x = images
    for k, (fan_in, fan_out) in enumerate([(64, 256), (256, 256), (256, 128)]):
        x = linear(b, f"model.{3 * k}", x, 3, 64, fan_in, fan_out, "model(images)", ms=0.9 + k, log2_rms=-8 - k)
        b.module.append(str(3 * k + 1))
        x = b.op("relu", 3, [x], (64, fan_out), code="model(images)", ms=0.12, backward=1.1)
        b.module[-1] = str(3 * k + 2)
        mask = b.op("dropout_mask", 3, [x], (64, fan_out), code="model(images)", ms=0.2, grad=False)
        x = b.op("mul", 3, [x, mask], (64, fan_out), code="model(images)", ms=0.09, backward=1.2)
        b.module.pop()
    logits = linear(b, "model.9", x, 3, 64, 128, 10, "model(images)", ms=0.3, log2_rms=-7)
    b.module.pop()
    log_p = b.op("log_softmax", 4, [logits], (64, 10), code="F.cross_entropy(logits, labels)", ms=0.21)
    picked = b.op("nll_loss", 4, [log_p, labels], (), code="F.cross_entropy(logits, labels)", ms=0.05)
    b.op("item", 8, [picked], (), count=1, code="loss.item()", ms=0.002, grad=False)
    return b.done(7, 6.4)


CUT_SOURCE = """\
h = encoder(images)
h = core.tensor(h.numpy() * scale)   # a detour
logits = head(h)
loss = F.cross_entropy(logits, labels)
loss.backward()"""


def cut():
    """A cell whose graph is cut by `.numpy()` on line 2: the encoder gets no gradient."""
    b = Builder("In [8]", CUT_SOURCE)
    images, labels = b.leaf("images", "input", 64, 64), b.leaf("labels", "input", 64)
    b.module = ["encoder"]
    x = linear(b, "encoder.0", images, 1, 64, 64, 128, "encoder(images)", ms=0.05, flags=["none"])
    b.module.append("1")
    x = b.op("tanh", 1, [x], (64, 128), count=1, code="encoder(images)", ms=0.03, backward=0)
    b.module.pop()
    x = linear(b, "encoder.2", x, 1, 64, 128, 32, "encoder(images)", ms=0.04, flags=["none"])
    b.module = []
    for op in b.record.ops:
        op.count, op.backward_ms, op.flags = 1, 0.0, ["unreached"]
    x = b.op("numpy", 2, [x], (64, 32), count=1, code="h.numpy()", ms=0.001, grad=False, flags=["cut"])
    x = b.op("tensor", 2, [x], (64, 32), count=1, code="core.tensor(h.numpy() * scale)", ms=0.004, grad=False)
    x = linear(b, "head", x, 3, 64, 32, 10, "head(h)", ms=0.02)
    x = b.op("cross_entropy", 4, [x, labels], (), count=1, code="F.cross_entropy(logits, labels)", ms=0.03)
    for op in b.record.ops:
        op.count = 1
    names = [row.name for row in b.record.gradients if "none" in row.flags]
    b.record.findings = [
        Finding(
            "cut", "error", 2, 16,
            f"line 2: `h.numpy()` cut the graph, so {len(names)} parameters get no gradient: {', '.join(names)}.",
            "Stay in tensors (`h * scale`), or call `h.detach()` if the cut is meant.", [3], names,
        )
    ]  # fmt: skip
    return b.done()


VANISHING_SOURCE = """\
model = nn.Sequential(*[layer for _ in range(12) for layer in (nn.Linear(64, 64), nn.Tanh())], nn.Linear(64, 10))
loss = F.cross_entropy(model(images), labels)
loss.backward()"""


def vanishing(depth=12):
    """Deep tanh: the first layers' gradients vanish."""
    b = Builder("In [9]", VANISHING_SOURCE)
    x, labels = b.leaf("images", "input", 64, 64), b.leaf("labels", "input", 64)
    code = "model(images)"
    small = []
    b.module = ["model"]
    for k in range(depth):
        log2_rms = -31 + 2.1 * k
        flags = ["vanishing"] if log2_rms < -23 else []
        small += [f"model.{2 * k}.weight", f"model.{2 * k}.bias"] if flags else []
        x = linear(b, f"model.{2 * k}", x, 2, 64, 64, 64, code, ms=0.03, log2_rms=log2_rms, flags=flags, update=None)
        b.module.append(str(2 * k + 1))
        x = b.op("tanh", 2, [x], (64, 64), count=1, code=code, ms=0.02)
        b.module.pop()
    x = linear(b, f"model.{2 * depth}", x, 2, 64, 64, 10, code, ms=0.02, log2_rms=-6, update=None)
    b.module = []
    b.op("cross_entropy", 2, [x, labels], (), code="F.cross_entropy(model(images), labels)", ms=0.03)
    for op in b.record.ops:
        op.count = 1
    b.record.findings = [
        Finding(
            "vanishing", "warning", 2, 7,
            f"line 2: the gradients of model.0 to model.6 vanish (rms 4.7e-10 against 1.6e-02 at model.{2 * depth}).",
            "Use ReLU or GELU, a residual connection, or a normalisation between the layers.",
            [i for i, op in enumerate(b.record.ops) if op.module in {f"model.{k}" for k in (0, 2, 4, 6)}], small,
        )
    ]  # fmt: skip
    return b.done()


def failed():
    """A cell with a NaN that then raises: a partial card, with two findings."""
    b = Builder("In [10]", "z = (x - x.mean()).log()\ny = z @ weight\nloss = y.mean(dim=7)\nloss.backward()")
    x, weight = b.leaf("x", "input", 32, 16), b.parameter("weight", 16, 4, flags=["none"])
    mean = b.op("mean", 1, [x], (), count=1, code="x.mean()", grad=False)
    d = b.op("sub", 1, [x, mean], (32, 16), count=1, code="x - x.mean()", grad=False)
    z = b.op("log", 1, [d], (32, 16), count=1, code="(x - x.mean()).log()", grad=False, flags=["nan"])
    y = b.op("matmul", 2, [z, weight], (32, 4), count=1, code="z @ weight", backward=0)
    b.op("mean", 3, [y], (), count=1, ms=0, code="y.mean(dim=7)", backward=0, flags=["error"])
    b.record.ops[2].stats = Stats(float("nan"), 1.1, float("nan"), None, 0.0, 251)
    b.record.findings = [
        Finding(
            "nan", "error", 1, 4, "line 1: log made the first NaN, 251 of 512 elements.", "Clamp its input.", [2], []
        ),
        Finding("no-gradient", "note", 4, None, "weight got no gradient: line 4 was not reached.", "", [], ["weight"]),
    ]
    b.record.error = ErrorRow("IndexError", "Dimension out of range (expected -2 to 1, got 7)", 3)
    return b.done()


GPT_SOURCE = """\
for step in range(20):
    x, y = batch()
    logits = model(x)
    loss = F.cross_entropy(logits.view(-1, vocab), y.view(-1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()"""


def gpt(blocks=12, block_ops=80):
    """About `blocks * block_ops` ops: a GPT whose attention is written head by head."""
    b = Builder("In [11]", GPT_SOURCE)
    width, tokens = 384, 256
    idx, target = b.leaf("x", "input", tokens), b.leaf("y", "input", tokens)
    mask = b.leaf("mask", "constant", tokens, tokens)

    def call(name, *inputs, shape=(tokens, width), ms=0.1):
        return b.op(name, 3, inputs, shape, ms=ms, code="model(x)", count=20)

    b.module = ["model", "wte"]
    wte = b.parameter("model.wte.weight", 5000, width)
    x = call("embedding", idx, wte)
    b.module[-1] = "blocks"
    for k in range(blocks):
        p = f"model.blocks.{k}"
        b.module += [str(k), "ln1"]
        h = call("layer_norm", x, b.parameter(p + ".ln1.weight", width), b.parameter(p + ".ln1.bias", width))
        b.module[-1] = "attention"
        qkv_weight = b.parameter(p + ".attention.qkv.weight", 3 * width, width)
        qkv = call("linear", h, qkv_weight, shape=(tokens, 3 * width), ms=2.0)
        heads = []
        for _ in range(max(1, (block_ops - 14) // 8)):
            q, key, v = (call("narrow", qkv, shape=(tokens, 64), ms=0.01) for _ in range(3))
            scores = call("matmul", q, key, shape=(tokens, tokens), ms=0.8)
            masked = call("where", scores, mask, shape=(tokens, tokens))
            weights = call("softmax", masked, shape=(tokens, tokens), ms=0.5)
            dropped = call("dropout", weights, shape=(tokens, tokens), ms=0.3)
            heads.append(call("matmul", dropped, v, shape=(tokens, 64), ms=0.7))
        joined = call("cat", *heads)
        out = call("linear", joined, b.parameter(p + ".attention.out.weight", width, width), ms=0.9)
        b.module.pop()
        x = call("add", x, out)
        b.module.append("ln2")
        h = call("layer_norm", x, b.parameter(p + ".ln2.weight", width), b.parameter(p + ".ln2.bias", width))
        b.module[-1] = "mlp"
        up = b.parameter(p + ".mlp.0.weight", 4 * width, width)
        h = call("gelu", call("linear", h, up, shape=(tokens, 4 * width), ms=3.0), shape=(tokens, 4 * width), ms=0.6)
        h = call("linear", h, b.parameter(p + ".mlp.2.weight", width, 4 * width), ms=3.1)
        b.module.pop()
        x = call("add", x, h)
        b.module.pop()
    b.module = ["model", "ln_f"]
    x = call("layer_norm", x, b.parameter("model.ln_f.weight", width), b.parameter("model.ln_f.bias", width))
    b.module[-1] = "head"
    x = call("linear", x, wte, shape=(tokens, 5000), ms=9.0)
    b.module = []
    b.op(
        "cross_entropy", 4, [x, target], (), code="F.cross_entropy(logits.view(-1, vocab), y.view(-1))", count=20, ms=2
    )
    return b.done(7, 40.0)


def flat(count=1000, seed=0):
    """A cell without modules: `count` ops of a random graph, all from one line but the last."""
    b = Builder("In [12]", "for step in range(n):\n    x = f(x)\nprint(x)", seed)
    made = [b.leaf("x", "input", 8, 8), b.leaf("w", "constant", 8, 8)]
    for k in range(count):
        inputs = [made[max(0, len(made) - 1 - b.random.randrange(6))] for _ in range(1 + k % 2)]
        made.append(b.op(("add", "mul", "tanh", "matmul")[k % 4], 2, inputs, (8, 8), count=1, code="f(x)", ms=0.004))
    return b.done()


HOSTILE = "</script><script>window.hacked=1</script><!--<img src=x onerror=window.hacked=1>"
HOSTILE += "\"'`&amp;\u2028\u2029\x00${1}\ud800\u202e\u2066\u200b\ufeff"
LONG = "<b>ten thousand</b> " + "W" * 9_980


def hostile(h=HOSTILE):
    """Every string of the record tries to break out of its place."""
    op = OpRow(
        0, h, 2, 1, 0, 1, 3, h, h, h + "." + h, h, h, [2, 3], h, ["t0", "o0", "o99", "zz", h], 1.0, 2.0, 0.5, 24, True,
        Stats(), [h, "cut", "nan", "error"],
    )  # fmt: skip
    local = OpRow(1, h, line=1, module=h, inputs=["o0", "t0", "t1"], flags=["unreached"], via=[0, 1])
    return Record(
        title=h, source=h + "\n" + h, wall_ms=1.0, ops_ms=float("nan"), forward_ms=float("inf"), ops=[op, local],
        tensors=[TensorRow(0, h, "parameter", [1], h), TensorRow(1, h, "input", [1], h)],
        lines=[LineRow(1, 1.0, 2.0, 1), LineRow(99, 1.0, 1.0, 1)],
        gradients=[
            GradientRow(h, h, [1], h, flags=["none", h]),
            GradientRow(h + "2", h, [1], h, norm=float("nan"), rms=float("inf"), histogram=[1] * 64, nonfinite=3),
        ],
        kernels=[KernelRow(h, h, h, 1, 1.0, 1.0, 1.0, 2.0, [h], h, "cpu", h, [h], h)],
        machine=Machine(h, "cpu", 2, 2.0, {h: 3.0}), checked=h, pages=[Page(h, h, 1, h, [LineRow(1, 1.0, 1.0, 1)])],
        findings=[Finding(h, h, 1, 0, "line 1: " + h, h, [0, 77], [h]), Finding("cut", "error", 99, 0, h, h)],
        error=ErrorRow(h, h, 1, h), device=h, environment={h: h},
        memory=Memory(3, 1.0, 2, [0.0, 1.0], [2, 3], [MemoryRow(1, 3, 3, 2, 1), MemoryRow(None, 1, 1, 0, 1)], 1, h,
                      [Held(h, 0, 1, [2], h, 1, h, 3, 2)]),
        runs=[Run(0, 0.0, 1.0, h), Run(0, 1.0, 1.0, "backward"), Run(99, 0.0, 1.0, h), Run(1, 2.0, 0.5)],
        compiled=[CompiledFunction(h, [h], [CompiledPiece(h, h, 1, h)])],
        comparison=Comparison(h, h, [Change(h, h, h, h, 1, h), Change("line", h, h, h, 99, h)]),
    )  # fmt: skip


def memory():
    """A cell of two ops with its memory, its timeline, a slow run among twelve, and what its last run did."""
    memory = Memory(3_000_000, 2.0, 1_000_000, [0.0, 1.0, 2.0, 3.0], [0, 2_000_000, 3_000_000, 1_000_000])
    memory.rows = [MemoryRow(2, 2_000_000, 2_000_000, 0, 1), MemoryRow(3, 1_000_000, 1_000_000, 1_000_000, 1)]
    slow = OpRow(0, "matmul", 12, 2, inputs=["t0", "t1"], forward_ms=5.0, forward_max_ms=3.1, size_bytes=8192,
                 dtype="float32", shape=[8, 8], requires_grad=True)  # fmt: skip
    ops = [slow, OpRow(1, "tanh", 12, 3, inputs=["o0"], backward_ms=1.0, size_bytes=256)]
    changes = [
        Change("time", "forward", "0.50 ms", "1.00 ms", note="×2.0"),
        Change("op added", "tanh", "", "8×8", 3),
        Change("line", "h = x @ w", "0.40 ms", "1.00 ms", 2, "×2.5"),
    ]
    return Record(
        "In [1]", "w = 1\nh = x @ w\ny = h.tanh()", ops=ops, memory=memory, forward_ms=5.0, backward_ms=1.0,
        tensors=[TensorRow(0, "x", "input", [8, 8]), TensorRow(1, "w", "parameter", [8, 8])],
        gradients=[GradientRow("w", "", [8, 8], norm=0.25, rms=0.03, histogram=[0] * 30 + [64] + [0] * 33)],
        runs=[Run(0, 0.0, 1.0), Run(1, 3.0, 1.0, "backward")], comparison=Comparison("In [0]", "In [1]", changes),
    )  # fmt: skip


def called():
    """A cell that calls a function of another cell, with its kernels, the machine's peak and who keeps its memory."""
    page = Page("double", "In [3]", 5, "def double(x):\n    y = x @ x\n    return y.tanh()",
                [LineRow(6, 2.0, 4.0, 1), LineRow(7, 0.5, 0.5, 1)])  # fmt: skip
    ops = [
        OpRow(0, "matmul", line=6, file="In [3]", code="x @ x", shape=[8, 8], dtype="float32", inputs=["t0", "t0"],
              forward_ms=2.0, backward_ms=4.0, requires_grad=True, calls=[[2, 4, 2, 13, 0, 0]], via=[0, 6]),
        OpRow(1, "tanh", line=7, file="In [3]", code="y.tanh()", shape=[8, 8], dtype="float32", inputs=["o0"],
              forward_ms=0.5, backward_ms=0.5, requires_grad=True, calls=[[2, 4, 2, 13, 0, 0]], via=[0, 7]),
        OpRow(2, "sum", line=3, code="y.sum()", dtype="float32", inputs=["o1"], forward_ms=0.1, requires_grad=True),
    ]  # fmt: skip
    kernels = [
        KernelRow("gemm", "BLAS", "matmul", 1, 2.0, 2000.0, 1e9, 5e9, ["8×8 float32"] * 2, "float32", "cpu",
                  "2 threads", [], "%tune matmul_f32 8x8x8 float32"),
        KernelRow("tanh_reference", "NumPy", "tanh", 1, 0.5, 500.0, 3e9, None, ["8×8 float32"], "float32", "cpu", "",
                  ["tanh (C): takes float32 and float64, got int64"]),
        KernelRow("old", "C", "sum", 1, 0.1, 100.0),
    ]  # fmt: skip
    memory = Memory(512, 2.0, 256, [0.0, 1.0, 2.0, 3.0], [0, 256, 512, 256], peak_line=2, peak_op="tanh")
    memory.rows = [MemoryRow(2, 512, 512, 256, 2, 256), MemoryRow(3, 0, 0, 0, 0, 256)]
    memory.held = [Held("tanh", 1, 2, [8, 8], "float32", 3, "saved for the gradient of tanh", 256, 1),
                   Held("matmul", 0, 2, [8, 8], "float32", 2, "variable y", 256, 1)]  # fmt: skip
    return Record(
        "In [4]", "x = start()\ny = double(x)\ny.sum().backward()", ops=ops, pages=[page], kernels=kernels,
        forward_ms=2.6, backward_ms=4.5, lines=[LineRow(2, 2.5, 4.5, 2), LineRow(3, 0.1, 0.0, 1)], memory=memory,
        tensors=[TensorRow(0, "x", "parameter", [8, 8], "float32", True)], checked="✓ Checked: gradients of 3 ops.",
        machine=Machine("a processor", "cpu", 2, 4e9, {"float32": 20e9}),
        gradients=[GradientRow("x", "", [8, 8], norm=1.0, rms=0.1, histogram=[0] * 37 + [64] + [0] * 26, count=1),
                   GradientRow("w", "", [4], flags=["none"])],
    )  # fmt: skip


def long():
    """Names of ten thousand characters."""
    return hostile(LONG)


ALL = {"mlp": mlp, "cut": cut, "vanishing": vanishing, "failed": failed, "gpt": gpt, "flat": flat, "hostile": hostile}
ALL |= {"long": long, "memory": memory, "called": called}
