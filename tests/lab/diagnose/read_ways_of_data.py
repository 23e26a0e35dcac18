"""As `read_other_ways.py`: derivatives, samplers, data sets, labels and boxes."""

from __future__ import annotations

WAYS: dict[str, tuple[str, int | None, str]] = {
    "a central difference by rolling": (
        "input_derivatives.half_the_distance",
        4,
        """
def speeds(pos, spacing):
    ahead = torch.roll(pos, -1, dims=1)
    behind = torch.roll(pos, 1, dims=1)
    return ((ahead - behind) / spacing)[:, 1:-1]
""",
    ),
    "a difference of one step by rolling": (
        "input_derivatives.half_the_distance",
        None,
        """
def speeds(pos, spacing):
    ahead = torch.roll(pos, -1, dims=1)
    return ((ahead - pos) / spacing)[:, :-1]
""",
    ),
    "a second difference by a convolution": (
        "input_derivatives.curvature_by_one_step",
        3,
        """
def curvature(rows, step):
    kernel = torch.tensor([[[1.0, -2.0, 1.0]]])
    return F.conv1d(rows.unsqueeze(1), kernel).squeeze(1) / step
""",
    ),
    "a smoothing by a convolution": (
        "input_derivatives.curvature_by_one_step",
        None,
        """
def smooth(rows, step):
    kernel = torch.tensor([[[1.0, 2.0, 1.0]]])
    return F.conv1d(rows.unsqueeze(1), kernel).squeeze(1) / step
""",
    ),
    "a force in a method of that name": (
        "input_derivatives.uphill_forces",
        4,
        """
class Pair(nn.Module):
    def energy_and_forces(self, coords):
        e = self(coords)
        f = torch.autograd.grad(e.sum(), coords, create_graph=True)[0]
        return e, f
""",
    ),
    "a force in a method of that name, right": (
        "input_derivatives.uphill_forces",
        None,
        """
class Pair(nn.Module):
    def energy_and_forces(self, coords):
        e = self(coords)
        f = torch.autograd.grad(e.sum(), coords, create_graph=True)[0].neg()
        return e, f
""",
    ),
    "two halves exchanged": (
        "input_derivatives.momentum_turned",
        5,
        """
def time_derivative(self, z):
    total = self.h(z).sum()
    slope, = torch.autograd.grad(total, z, create_graph=True)
    by_place, by_momentum = slope.unbind(dim=-1)
    return torch.stack((by_momentum, by_place), dim=-1)
""",
    ),
    "two halves exchanged with a sign": (
        "input_derivatives.momentum_turned",
        None,
        """
def time_derivative(self, z):
    total = self.h(z).sum()
    slope, = torch.autograd.grad(total, z, create_graph=True)
    by_place, by_momentum = slope.unbind(dim=-1)
    return torch.stack((by_momentum, -by_place), dim=-1)
""",
    ),
    "stages of other names": (
        "input_derivatives.stages_out_of_weight",
        6,
        """
def rk4_step(f, s, h):
    a = f(s)
    b = f(s + 0.5 * h * a)
    c = f(s + 0.5 * h * b)
    d = f(s + h * c)
    return s + h / 6 * (a + b + c + d)
""",
    ),
    "stages of other names, right": (
        "input_derivatives.stages_out_of_weight",
        None,
        """
def rk4_step(f, s, h):
    a = f(s)
    b = f(s + 0.5 * h * a)
    c = f(s + 0.5 * h * b)
    d = f(s + h * c)
    return s + h / 6 * (a + 2 * b + 2 * c + d)
""",
    ),
    "layers one after another are no stages": (
        "input_derivatives.stages_out_of_weight",
        None,
        """
def forward(self, x):
    a = self.block(x)
    b = self.block(x + a)
    c = self.block(x + b)
    d = self.block(x + c)
    return torch.cat([a, b, c, d], 1)
""",
    ),
    "a sampler over arange": (
        "sampled_noise.towards_the_noise",
        3,
        """
def sample(self, net, n):
    cur = torch.randn(n, 2)
    for k in torch.arange(40):
        eps = net(cur, k)
        cur = (cur - self.beta[k] / (1 - self.a_bar[k]).sqrt() * eps) / self.a[k].sqrt()
    return cur
""",
    ),
    "the way to a noisy place": (
        "sampled_noise.score_turned",
        4,
        """
def dsm(net, pts, std=0.3):
    shifted = torch.normal(pts, std)
    goal = (shifted - pts) / std ** 2
    gap = (net(shifted) - goal).pow(2)
    return gap.mean()
""",
    ),
    "the way back from a noisy place": (
        "sampled_noise.score_turned",
        None,
        """
def dsm(net, pts, std=0.3):
    shifted = torch.normal(pts, std)
    goal = (pts - shifted) / std ** 2
    gap = (net(shifted) - goal).pow(2)
    return gap.mean()
""",
    ),
    "a Langevin step by mul": (
        "sampled_noise.quiet_walk",
        4,
        """
def move(self):
    drift = self.eta * grad_log(self.w)
    kick = torch.randn_like(self.w).mul(self.eta)
    self.w = self.w + drift + kick
    return self.w
""",
    ),
    "a stored sample changed by a chain": (
        "samples_made.stored_changed",
        4,
        """
class Specs(Dataset):
    def __getitem__(self, i):
        spec = self.specs[i]
        spec.sub_(self.center).div_(self.width)
        return spec, self.kind[i]
""",
    ),
    "a copy changed by a chain": (
        "samples_made.stored_changed",
        None,
        """
class Specs(Dataset):
    def __getitem__(self, i):
        spec = self.specs[i].clone()
        spec.sub_(self.center).div_(self.width)
        return spec, self.kind[i]
""",
    ),
    "the last column of all windows": (
        "samples_made.target_in_window",
        4,
        """
def make_windows(values, width):
    frames = np.lib.stride_tricks.sliding_window_view(values, width)
    past = frames.copy()
    goal = past[:, -1:].copy()
    return torch.from_numpy(past), torch.from_numpy(goal)
""",
    ),
    "windows without their last column": (
        "samples_made.target_in_window",
        None,
        """
def make_windows(values, width):
    frames = np.lib.stride_tricks.sliding_window_view(values, width + 1)
    past = frames[:, :-1].copy()
    goal = frames[:, -1:].copy()
    return torch.from_numpy(past), torch.from_numpy(goal)
""",
    ),
    "shares of classes from a function": (
        "class_weights.by_their_counts",
        4,
        """
def balance(labels, n_cls):
    tally = Counter(labels.tolist())
    share = torch.tensor([tally[c] / len(labels) for c in range(n_cls)])
    return share * n_cls
w = balance(y, 3)
loss = F.cross_entropy(out, y, weight=w)
""",
    ),
    "inverse shares of classes from a function": (
        "class_weights.by_their_counts",
        None,
        """
def balance(labels, n_cls):
    tally = Counter(labels.tolist())
    share = torch.tensor([len(labels) / tally[c] for c in range(n_cls)])
    return share / n_cls
w = balance(y, 3)
loss = F.cross_entropy(out, y, weight=w)
""",
    ),
    "the odds of a label": (
        "class_weights.rare_ones_less",
        2,
        """
rate = y_train.mean()
odds = rate / (1 - rate)
criterion = nn.BCEWithLogitsLoss(pos_weight=odds)
""",
    ),
    "the odds against a label": (
        "class_weights.rare_ones_less",
        None,
        """
rate = y_train.mean()
odds = (1 - rate) / rate
criterion = nn.BCEWithLogitsLoss(pos_weight=odds)
""",
    ),
    "padding by eq": (
        "losses_by_hand.padding_alone",
        3,
        """
def sequence_loss(scores, gold):
    nll = F.cross_entropy(scores.transpose(1, 2), gold, reduction="none")
    keep = gold.eq(BLANK).to(nll.dtype)
    return (nll * keep).sum() / keep.sum().clamp(min=1)
""",
    ),
    "padding by ne": (
        "losses_by_hand.padding_alone",
        None,
        """
def sequence_loss(scores, gold):
    nll = F.cross_entropy(scores.transpose(1, 2), gold, reduction="none")
    keep = gold.ne(BLANK).to(nll.dtype)
    return (nll * keep).sum() / keep.sum().clamp(min=1)
""",
    ),
    "every embedding drawn anew": (
        "padding_read.padding_overwritten",
        8,
        """
class Basket(nn.Module):
    def __init__(self):
        self.table = nn.Embedding(30, 16, padding_idx=0)
        for m in self.modules():
            if isinstance(m, nn.Linear):
                nn.init.xavier_uniform_(m.weight)
            elif isinstance(m, nn.Embedding):
                m.weight.data.uniform_(-0.5, 0.5)
""",
    ),
    "every embedding drawn anew but for its padding": (
        "padding_read.padding_overwritten",
        None,
        """
class Basket(nn.Module):
    def __init__(self):
        self.table = nn.Embedding(30, 16, padding_idx=0)
        for m in self.modules():
            if isinstance(m, nn.Embedding):
                m.weight.data.uniform_(-0.5, 0.5)
                if m.padding_idx is not None:
                    m.weight.data[m.padding_idx].zero_()
""",
    ),
    "a grey mask as whole numbers": (
        "padding_read.cut_to_whole",
        3,
        """
def __getitem__(self, k):
    scan, drawn = self.data[k]
    return scan, torch.tensor(drawn / 255.0, dtype=torch.int64)
""",
    ),
    "mixed by lerp, weighed the other way round": (
        "mixed_samples.shares_exchanged",
        6,
        """
def blend(batch, gold):
    other = torch.randperm(len(batch))
    mixed = torch.lerp(batch[other], batch, share)
    return mixed, gold, gold[other], share
def blended_loss(scores, first, second, share):
    return torch.lerp(F.cross_entropy(scores, first), F.cross_entropy(scores, second), share)
inp, first, second, share = blend(x, y)
loss = blended_loss(net(inp), first, second, share)
""",
    ),
    "mixed and weighed by lerp": (
        "mixed_samples.shares_exchanged",
        None,
        """
def blend(batch, gold):
    other = torch.randperm(len(batch))
    mixed = torch.lerp(batch[other], batch, share)
    return mixed, gold, gold[other], share
def blended_loss(scores, first, second, share):
    return torch.lerp(F.cross_entropy(scores, second), F.cross_entropy(scores, first), share)
inp, first, second, share = blend(x, y)
loss = blended_loss(net(inp), first, second, share)
""",
    ),
    "mixed with an order that is drawn in place": (
        "mixed_samples.labels_unmixed",
        4,
        """
def mixup(clip, a=1.0):
    lam = float(np.random.beta(a, a))
    partner = clip[torch.randperm(clip.shape[0])]
    return lam * clip + (1 - lam) * partner
""",
    ),
    "a state drawn in a method": (
        "mixed_samples.begins_at_random",
        3,
        """
class Gauge(nn.Module):
    def start(self, n):
        return tuple(torch.empty(n, self.hid).normal_() for _ in range(2))
    def forward(self, seq):
        h, c = self.start(len(seq))
        for x_t in seq.unbind(1):
            h, c = self.cell(x_t, (h, c))
        return self.out(h)
""",
    ),
    "noise drawn in a method": (
        "mixed_samples.begins_at_random",
        None,
        """
class Gauge(nn.Module):
    def noise(self, n):
        return torch.empty(n, self.hid).normal_()
    def forward(self, seq):
        z = self.noise(len(seq))
        return self.out(torch.cat([seq, z], 1))
""",
    ),
    "shares filled beside a one": (
        "losses_by_hand.sums_to_more",
        2,
        """
def smooth(gold, n, s=0.1):
    dist = torch.full((len(gold), n), s)
    dist.scatter_(1, gold.unsqueeze(1), 1.0)
    return -(dist * F.log_softmax(scores, dim=1)).sum(dim=1).mean()
""",
    ),
    "shares filled beside what is left": (
        "losses_by_hand.sums_to_more",
        None,
        """
def smooth(gold, n, s=0.1):
    dist = torch.full((len(gold), n), s / (n - 1))
    dist.scatter_(1, gold.unsqueeze(1), 1.0 - s)
    return -(dist * F.log_softmax(scores, dim=1)).sum(dim=1).mean()
""",
    ),
    "the sides of an overlap by prod": (
        "overlaps.boxes_apart",
        4,
        """
def pairwise_iou(a, b):
    lt = torch.maximum(a[:, None, :2], b[None, :, :2])
    rb = torch.minimum(a[:, None, 2:], b[None, :, 2:])
    common = (rb - lt).prod(dim=-1)
    return common / (area(a)[:, None] + area(b)[None] - common)
""",
    ),
    "the lowest of sort's indices": (
        "overlaps.lowest_first",
        2,
        """
def suppress(boxes, conf, limit=0.5):
    queue = torch.sort(conf).indices
    while queue.numel() > 0:
        head, rest = queue[0], queue[1:]
        queue = rest[box_iou(boxes[head], boxes[rest]) <= limit]
""",
    ),
    "the highest of sort's indices": (
        "overlaps.lowest_first",
        None,
        """
def suppress(boxes, conf, limit=0.5):
    queue = torch.sort(conf, descending=True).indices
    while queue.numel() > 0:
        head, rest = queue[0], queue[1:]
        queue = rest[box_iou(boxes[head], boxes[rest]) <= limit]
""",
    ),
    "the sizes of an image repeated": (
        "overlaps.sides_exchanged",
        3,
        """
def __getitem__(self, k):
    pic = self.pics[k]
    rel = self.boxes[k] / torch.tensor(pic.shape[-2:]).repeat(2)
    return pic, rel
""",
    ),
    "a weight copied where it is to be tied": (
        "tied_weights.copied",
        4,
        """
class TiedLM(nn.Module):
    def tie(self):
        with torch.no_grad():
            self.out.weight.copy_(self.tok.weight)
""",
    ),
    "a weight copied from another model": (
        "tied_weights.copied",
        None,
        """
class Student(nn.Module):
    def take_over(self, teacher):
        with torch.no_grad():
            self.out.weight.copy_(teacher.out.weight)
""",
    ),
    "the fields of a dict() counted": (
        "short_sets.counts_fields",
        5,
        """
class Vibration(Dataset):
    def __init__(self, tone, worn):
        self.store = dict(signal=tone, worn=worn)
    def __len__(self):
        return self.store.__len__()
    def __getitem__(self, k):
        return {field: col[k] for field, col in self.store.items()}
""",
    ),
    "two calls that draw an order each": (
        "batches.apart",
        4,
        """
crop = soil[:, 0] - 0.5 * soil[:, 1]
def shuffled(table):
    return table[rng.permutation(len(table))]
soil, crop = shuffled(soil), shuffled(crop)
""",
    ),
    "two sets that have nothing to do with each other": (
        "batches.apart",
        None,
        """
def shuffled(table):
    return table[rng.permutation(len(table))]
positive, negative = shuffled(positive), shuffled(negative)
""",
    ),
}
