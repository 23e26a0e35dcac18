"""The calls of ``python -m lab bench sweep``, one a line: Python that is evaluated for core and for PyTorch.

`t` is the library, `F` its nn.functional; R, C and N are a matrix's rows, columns and items. The other names are
inputs, whose shapes `SHAPES` of sweep.py gives for every size; after `::` stands what is made once, before the timing.
"""

from __future__ import annotations

from .sweep_layers import ACTIVATIONS, LAYERS, LOSSES

ELEMENTWISE = """
x + y
x - row
x * y
x / positive
x + 1
2 * x
-x
x ** 2
x ** 3
positive ** y
t.abs(x)
t.sign(x)
t.square(x)
t.sqrt(positive)
t.rsqrt(positive)
t.reciprocal(positive)
t.exp(x)
t.exp2(x)
t.expm1(x)
t.log(positive)
t.log2(positive)
t.log10(positive)
t.log1p(positive)
t.sin(x)
t.cos(x)
t.tan(x)
t.asin(unit)
t.acos(unit)
t.atan(x)
t.sinh(x)
t.cosh(x)
t.tanh(x)
t.asinh(x)
t.acosh(1 + positive)
t.atanh(unit)
t.erf(x)
t.erfc(x)
t.erfinv(unit)
t.lgamma(positive)
t.digamma(positive)
t.sigmoid(x)
t.logit(unit)
t.floor(x)
t.ceil(x)
t.round(x)
t.trunc(x)
t.frac(x)
t.sinc(x)
t.deg2rad(x)
t.nan_to_num(x)
t.clamp(x, -1, 1)
t.clamp(x, min=0)
t.maximum(x, y)
t.minimum(x, y)
t.fmax(x, y)
t.atan2(x, positive)
t.hypot(x, y)
t.logaddexp(x, y)
t.xlogy(x, positive)
t.copysign(x, y)
t.fmod(x, positive)
t.remainder(x, positive)
t.floor_divide(x, positive)
t.lerp(x, y, 0.3)
t.addcmul(x, y, z)
t.addcdiv(x, y, positive)
t.ldexp(x, whole)
t.isnan(x)
t.isfinite(x)
t.signbit(x)
x > y
x <= 0.5
x == y
whole == 3
t.logical_and(mask, mask)
t.logical_not(mask)
mask & mask
whole & 3
whole * whole
whole // 3
whole % 3
t.gcd(whole, columns)
x.double()
x.to(t.bfloat16)
x.long()
whole.float()
mask.float()
x.isclose(y)
x.clone().add_(y)
x.clone().mul_(2.0)
x.clone().clamp_(0, 1)
x.clone().zero_()
"""

REDUCTIONS = """
x.sum()
x.sum(0)
x.sum(1)
x.sum(1, keepdim=True)
image.sum((0, 2, 3))
x.mean()
x.mean(0)
x.mean(1)
image.mean((2, 3))
x.var()
x.var(0)
x.var(1)
x.std()
x.std(1)
image.var((0, 2, 3))
t.var_mean(x, 1)
positive.prod()
positive.prod(1)
x.max()
x.max(0).values
x.max(1).values
x.min(1).values
x.amax(1)
x.amax(0)
x.amin(0)
t.aminmax(x)
x.argmax()
x.argmax(0)
x.argmax(1)
x.argmin(1)
t.logsumexp(x, 1)
t.logsumexp(x, 0)
x.norm()
x.norm(dim=1)
t.linalg.vector_norm(x, 1, dim=1)
x.norm(p=3, dim=1)
t.nansum(x, 1)
distinct.median()
distinct.median(1).values
t.quantile(x, 0.3, 1)
t.kthvalue(distinct, 3, 1).values
mask.any()
mask.all(1)
mask.sum()
whole.sum(1)
t.count_nonzero(x)
t.dist(x, y)
t.trace(square)
t.cov(small)
t.allclose(x, x)
t.equal(x, x)
"""

SORTING = """
t.sort(distinct, -1).values
t.sort(distinct, 0).values
t.sort(flat).values
t.argsort(distinct, -1)
t.sort(whole, -1).values
t.topk(distinct, 4, -1).values
t.topk(flat, 10).values
t.cumsum(x, -1)
t.cumsum(x, 0)
t.cumsum(whole, 1)
t.cumprod(positive, -1)
t.cummax(distinct, -1).values
t.logcumsumexp(x, -1)
t.diff(x)
t.unique(whole)
t.bincount(labels)
t.histc(x, 20)
t.searchsorted(edges, x)
t.bucketize(x, edges)
t.isin(whole, labels)
t.trapezoid(x)
t.msort(distinct)
"""

INDEXING = """
x[0]
x[:, 1:4]
x[::2]
x[:, ::2] + 1
x[rows]
x[:, rows]
x[[0, 2, 1]]
x[rows, 0]
x[rows, labels]
x[None, :, 1]
x[mask]
x[x > 0]
t.index_select(x, 0, rows)
t.index_select(x, 1, rows)
t.gather(x, 1, columns)
t.gather(x, 0, down)
t.take(x, columns)
t.take_along_dim(x, columns, 1)
t.scatter(x, 1, columns, y)
t.scatter(x, 1, columns, 1.0)
t.scatter_add(x, 1, columns, y)
t.scatter_add(x, 0, down, y)
t.scatter_reduce(x, 1, columns, y, "amax")
t.index_add(x, 0, rows, y)
t.index_copy(x, 0, order, y)
t.index_fill(x, 0, rows, 0.5)
t.where(mask, x, y)
t.where(mask, x, 0.0)
t.where(x > 0, x, y)
t.masked_fill(x, mask, 0.0)
t.masked_select(x, mask)
t.masked_scatter(x, mask, y)
t.nonzero(mask)
t.argwhere(mask)
x.clone().masked_fill_(mask, 0.0)
setitem(x.clone(), 0, 1.0)
setitem(x.clone(), mask, 0.0)
setitem(x.clone(), rows, 1.0)
setitem(x.clone(), (slice(None), slice(1, 4)), 0.0)
x.index_put((rows, labels), row[0])
F.embedding(words, x)
F.embedding_bag(words, x)
F.one_hot(labels, C)
t.tril(x)
t.triu(x, 1)
t.diagonal(x).clone()
t.diag(row)
t.diag_embed(small)
"""

SHAPES = """
t.cat([x, y], 0)
t.cat([x, y], 1)
t.cat([x, y, z, x, y, z, x, y], 1)
t.stack([x, y], 0)
t.stack([x, y], -1)
t.hstack([x, y])
F.pad(x, (1, 2))
F.pad(x, (1, 1, 1, 1), value=1.0)
F.pad(image, (1, 1, 1, 1), mode="reflect")
F.pad(image, (1, 1, 1, 1), mode="replicate")
F.pad(image, (1, 1, 1, 1), mode="circular")
t.roll(x, 1, 1)
t.roll(x, 1, 0)
t.roll(x, 3)
t.flip(x, [0])
t.flip(x, [1])
t.rot90(x)
x.t().contiguous()
image.permute(0, 2, 3, 1).contiguous()
image.permute(1, 0, 2, 3).contiguous()
x.reshape(-1)
x.view(-1, 2)
x.t().reshape(-1)
image.flatten(1)
x.unsqueeze(0)
x.expand(3, R, C).contiguous()
x.repeat(2, 3)
x.repeat_interleave(2, 0)
x.repeat_interleave(2, 1)
t.tile(x, (2, 1))
x.chunk(2, 1)[0] * 1
x.split(2)[0]
x.unbind(0)[0]
x.clone()
x.narrow(1, 1, 3)
x.squeeze()
x.movedim(0, 1)
t.meshgrid(row, row, indexing="ij")[0] * 1
t.broadcast_to(row, (R, C)) + 0
t.pixel_shuffle(image, 2)
t.pixel_unshuffle(image, 2)
t.channel_shuffle(image, 2)
F.unfold(image, 3)
t.block_diag(small, small)
t.kron(small, small)
t.combinations(row[:20])
t.cartesian_prod(row[:20], row[:20])
t.vander(row[:20].detach())
"""

CREATION = """
t.zeros(R, C)
t.ones(R, C)
t.full((R, C), 2.5)
t.empty(R, C)
t.zeros_like(x)
t.ones_like(x)
t.full_like(x, 2.5)
t.arange(N)
t.arange(0, N, 2.0)
t.linspace(0, 1, N)
t.logspace(0, 1, N)
t.eye(R)
t.eye(R, C)
t.rand(R, C)
t.randn(R, C)
t.rand_like(x)
t.randn_like(x)
t.randint(0, 10, (R, C))
t.randperm(N)
t.normal(x.detach(), 1.0)
t.bernoulli(probability)
t.multinomial(probability, 3)
t.empty(R, C).uniform_()
t.empty(R, C).normal_()
t.empty(R, C).exponential_()
t.tensor(numbers)
t.tensor(array)
t.from_numpy(array)
t.as_tensor(array)
x.tolist()
x[0, 0].item()
t.tril_indices(20, 20)
t.hann_window(C)
t.complex(x, y).real
"""

PRODUCTS = """
x @ y.t()
t.mm(square, square2)
t.matmul(x, row)
t.mv(x, row)
t.dot(flat, flat2)
t.outer(row, row)
t.bmm(batch, batch2)
batch @ batch2
batch @ square3
t.addmm(square2, square, square)
t.baddbmm(batch, batch, batch2)
t.addmv(row, square4, row)
t.einsum("ij,jk->ik", square, square2)
t.einsum("bij,bjk->bik", batch, batch2)
t.einsum("bij,bij->b", batch, batch2)
t.einsum("ij,ij->", x, y)
t.einsum("i,j->ij", row, row)
t.einsum("bhqd,bhkd->bhqk", query, key)
t.einsum("ij->ji", x)
t.tensordot(batch, batch2, ([1], [1]))
t.inner(x, x)
t.cross(triples, triples2, -1)
t.cdist(small, small2)
F.pairwise_distance(x, y)
F.cosine_similarity(x, y)
F.linear(x, weight, row)
F.linear(x, weight)
F.bilinear(small, small2, cube)
F.scaled_dot_product_attention(query, key, value)
F.scaled_dot_product_attention(query, key, value, is_causal=True)
t.linalg.det(square5)
t.linalg.slogdet(square5)[1]
t.linalg.inv(square5)
t.linalg.solve(square5, small5)
t.linalg.cholesky(definite)
t.linalg.qr(square5)[1]
t.linalg.svdvals(square5)
t.linalg.svd(square5)[1]
t.linalg.eigh(definite)[0]
t.linalg.eigvalsh(definite)
t.linalg.lstsq(square5, small5).solution
t.linalg.solve_triangular(definite, small5, upper=False)
t.linalg.matrix_norm(square5)
t.linalg.matrix_power(square5, 3)
t.linalg.pinv(square5)
t.linalg.matrix_exp(square5)
t.view_as_real(t.fft.fft(x))
t.view_as_real(t.fft.rfft(x))
"""

FAMILIES = {"elementwise": ELEMENTWISE, "activations": ACTIVATIONS, "reductions": REDUCTIONS, "sorting": SORTING,
            "indexing": INDEXING, "shapes": SHAPES, "creation": CREATION, "products": PRODUCTS, "layers": LAYERS,
            "losses": LOSSES}  # fmt: skip
"""The texts by family."""


def calls(family: str) -> list[str]:
    """Return a family's calls.

    >>> calls("losses")[0]
    'F.mse_loss(x, y)'
    """
    return [line for line in FAMILIES[family].splitlines() if line]
