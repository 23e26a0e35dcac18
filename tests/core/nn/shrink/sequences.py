"""Transformers, recurrent networks and others as people write them, small."""

from __future__ import annotations

import math
from dataclasses import dataclass

import core as torch
from core import nn
from core.nn import functional as F

from .convolutional import CASES, case


@case
def mlp():
    return nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 3)), (
        torch.randn(4, 10),
    )


@dataclass
class Config:
    block_size: int = 12
    vocab_size: int = 20
    n_layer: int = 2
    n_head: int = 4
    n_embd: int = 32


class CausalSelfAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        assert config.n_embd % config.n_head == 0
        self.c_attn = nn.Linear(config.n_embd, 3 * config.n_embd)
        self.c_proj = nn.Linear(config.n_embd, config.n_embd)
        self.n_head, self.n_embd = config.n_head, config.n_embd
        mask = torch.tril(torch.ones(config.block_size, config.block_size))
        self.register_buffer("bias", mask.view(1, 1, config.block_size, config.block_size))

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(self.n_embd, dim=2)
        k = k.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        q = q.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        v = v.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        att = att.masked_fill(self.bias[:, :, :T, :T] == 0, float("-inf"))
        y = F.softmax(att, dim=-1) @ v
        return self.c_proj(y.transpose(1, 2).contiguous().view(B, T, C))


class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.ln_1, self.attn = nn.LayerNorm(config.n_embd), CausalSelfAttention(config)
        self.ln_2 = nn.LayerNorm(config.n_embd)
        self.c_fc, self.c_proj = (
            nn.Linear(config.n_embd, 4 * config.n_embd),
            nn.Linear(4 * config.n_embd, config.n_embd),
        )

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.c_proj(F.gelu(self.c_fc(self.ln_2(x))))


class GPT(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.wte, self.wpe = (
            nn.Embedding(config.vocab_size, config.n_embd),
            nn.Embedding(config.block_size, config.n_embd),
        )
        self.h = nn.ModuleList(Block(config) for _ in range(config.n_layer))
        self.ln_f = nn.LayerNorm(config.n_embd)
        self.lm_head = nn.Linear(config.n_embd, config.vocab_size, bias=False)
        self.wte.weight = self.lm_head.weight

    def forward(self, idx):
        _b, t = idx.size()
        assert t <= self.config.block_size
        x = self.wte(idx) + self.wpe(torch.arange(0, t))
        for block in self.h:
            x = block(x)
        return self.lm_head(self.ln_f(x))


@case
def gpt():
    return GPT(Config()), (torch.randint(0, 20, (2, 8)),)


class TimmAttention(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads, self.head_dim = num_heads, dim // num_heads
        self.scale = self.head_dim**-0.5
        self.qkv, self.proj = nn.Linear(dim, dim * 3), nn.Linear(dim, dim)

    def forward(self, x):
        B, N, C = x.shape
        qkv = self.qkv(x).reshape(B, N, 3, self.num_heads, self.head_dim).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        x = F.scaled_dot_product_attention(q, k, v)
        return self.proj(x.transpose(1, 2).reshape(B, N, C))


class ViTBlock(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.norm1, self.attn, self.norm2 = nn.LayerNorm(dim), TimmAttention(dim, heads), nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, dim * 2), nn.GELU(), nn.Linear(dim * 2, dim))

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class ViT(nn.Module):
    def __init__(self, dim=16, heads=4, patches=4):
        super().__init__()
        self.patch_embed = nn.Conv2d(3, dim, 4, 4)
        self.cls_token = nn.Parameter(torch.randn(1, 1, dim))
        self.pos_embed = nn.Parameter(torch.randn(1, patches + 1, dim) * 0.1)
        self.blocks = nn.Sequential(ViTBlock(dim, heads), ViTBlock(dim, heads))
        self.norm, self.head = nn.LayerNorm(dim), nn.Linear(dim, 5)

    def forward(self, x):
        x = self.patch_embed(x).flatten(2).transpose(1, 2)
        x = torch.cat((self.cls_token.expand(x.shape[0], -1, -1), x), dim=1) + self.pos_embed
        return self.head(self.norm(self.blocks(x))[:, 0])


@case
def vit():
    return ViT(), (torch.randn(2, 3, 8, 8),)


class BertSelfAttention(nn.Module):
    def __init__(self, hidden, heads):
        super().__init__()
        self.num_attention_heads, self.attention_head_size = heads, hidden // heads
        self.all_head_size = heads * self.attention_head_size
        self.query, self.key, self.value = (nn.Linear(hidden, self.all_head_size) for _ in range(3))

    def transpose_for_scores(self, x):
        return x.view(*x.size()[:-1], self.num_attention_heads, self.attention_head_size).permute(0, 2, 1, 3)

    def forward(self, x, mask):
        q, k, v = (self.transpose_for_scores(f(x)) for f in (self.query, self.key, self.value))
        scores = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(self.attention_head_size) + mask
        context = torch.matmul(scores.softmax(-1), v).permute(0, 2, 1, 3).contiguous()
        return context.view(*context.size()[:-2], self.all_head_size)


class Bert(nn.Module):
    def __init__(self, hidden=16, heads=4, layers=2):
        super().__init__()
        self.word, self.position, self.kind = (
            nn.Embedding(30, hidden),
            nn.Embedding(10, hidden),
            nn.Embedding(2, hidden),
        )
        self.norm = nn.LayerNorm(hidden)
        self.attention = nn.ModuleList(BertSelfAttention(hidden, heads) for _ in range(layers))
        self.out = nn.ModuleList(nn.Linear(hidden, hidden) for _ in range(layers))
        self.up = nn.ModuleList(nn.Linear(hidden, 4 * hidden) for _ in range(layers))
        self.down = nn.ModuleList(nn.Linear(4 * hidden, hidden) for _ in range(layers))
        self.norms = nn.ModuleList(nn.LayerNorm(hidden) for _ in range(2 * layers))
        self.pooler, self.classifier = nn.Linear(hidden, hidden), nn.Linear(hidden, 2)

    def forward(self, ids, attention_mask):
        positions = torch.arange(ids.shape[1]).unsqueeze(0)
        x = self.norm(self.word(ids) + self.position(positions) + self.kind(torch.zeros_like(ids)))
        mask = (1.0 - attention_mask[:, None, None, :]) * -10000.0
        for k, attention in enumerate(self.attention):
            x = self.norms[2 * k](x + self.out[k](attention(x, mask)))
            x = self.norms[2 * k + 1](x + self.down[k](F.gelu(self.up[k](x))))
        return self.classifier(torch.tanh(self.pooler(x[:, 0])))


@case
def bert():
    return Bert(), (torch.randint(0, 30, (2, 6)), torch.ones(2, 6))


class RMSNorm(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight


class T5Attention(nn.Module):
    def __init__(self, d_model, heads, d_kv):
        super().__init__()
        self.n_heads, self.d_kv, self.inner_dim = heads, d_kv, heads * d_kv
        self.q, self.k, self.v = (nn.Linear(d_model, heads * d_kv, bias=False) for _ in range(3))
        self.o = nn.Linear(heads * d_kv, d_model, bias=False)
        self.relative = nn.Embedding(32, heads)

    def forward(self, x, memory):
        b = x.shape[0]

        def shape(y):
            return y.view(b, -1, self.n_heads, self.d_kv).transpose(1, 2)

        q, k, v = shape(self.q(x)), shape(self.k(memory)), shape(self.v(memory))
        far = torch.arange(x.shape[1])[:, None] - torch.arange(memory.shape[1])[None, :] + 16
        scores = q @ k.transpose(3, 2) + self.relative(far).permute(2, 0, 1).unsqueeze(0)
        y = F.softmax(scores.float(), dim=-1) @ v
        return self.o(y.transpose(1, 2).contiguous().view(b, -1, self.inner_dim))


class T5(nn.Module):
    def __init__(self, d=16, heads=4, d_kv=6, ff=24):
        super().__init__()
        self.shared = nn.Embedding(25, d)
        self.encode, self.decode, self.cross = (T5Attention(d, heads, d_kv) for _ in range(3))
        self.norms = nn.ModuleList(RMSNorm(d) for _ in range(5))
        self.wi_0, self.wi_1, self.wo = nn.Linear(d, ff), nn.Linear(d, ff), nn.Linear(ff, d)

    def forward(self, source, target):
        x, y = self.shared(source), self.shared(target)
        n = self.norms[0](x)
        x = x + self.encode(n, n)
        m = self.norms[1](x)
        x = x + self.wo(F.gelu(self.wi_0(m)) * self.wi_1(m))
        n = self.norms[2](y)
        y = y + self.decode(n, n)
        y = y + self.cross(self.norms[3](y), x)
        return self.norms[4](y) @ self.shared.weight.t()


@case
def t5():
    return T5(), (torch.randint(0, 25, (2, 7)), torch.randint(0, 25, (2, 5)))


class Llama(nn.Module):
    """Grouped queries, rotary positions, a gated feed-forward."""

    def __init__(self, dim=32, n_heads=4, n_kv=2, hidden=48):
        super().__init__()
        self.n_heads, self.n_kv, self.head_dim = n_heads, n_kv, dim // n_heads
        self.emb = nn.Embedding(20, dim)
        self.wq, self.wk = (
            nn.Linear(dim, n_heads * self.head_dim, bias=False),
            nn.Linear(dim, n_kv * self.head_dim, bias=False),
        )
        self.wv, self.wo = (
            nn.Linear(dim, n_kv * self.head_dim, bias=False),
            nn.Linear(n_heads * self.head_dim, dim, bias=False),
        )
        self.w1, self.w2, self.w3 = nn.Linear(dim, hidden), nn.Linear(hidden, dim), nn.Linear(dim, hidden)
        self.n1, self.n2 = RMSNorm(dim), nn.RMSNorm(dim)
        angles = torch.outer(
            torch.arange(12).float(), 1.0 / 100 ** (torch.arange(0, self.head_dim, 2).float() / self.head_dim)
        )
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())

    def rotate(self, x):
        x1, x2 = x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]
        cos, sin = self.cos[: x.shape[2]], self.sin[: x.shape[2]]
        return torch.cat((x1 * cos - x2 * sin, x1 * sin + x2 * cos), -1)

    def forward(self, ids):
        b, t = ids.shape
        x = self.emb(ids)
        h = self.n1(x)
        q = self.rotate(self.wq(h).view(b, t, self.n_heads, self.head_dim).transpose(1, 2))
        k = self.rotate(self.wk(h).view(b, t, self.n_kv, self.head_dim).transpose(1, 2))
        v = self.wv(h).view(b, t, self.n_kv, self.head_dim).transpose(1, 2)
        k = k.repeat_interleave(self.n_heads // self.n_kv, dim=1)
        v = v.repeat_interleave(self.n_heads // self.n_kv, dim=1)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.wo(y.transpose(1, 2).reshape(b, t, -1))
        h = self.n2(x)
        x = x + self.w2(F.silu(self.w1(h)) * self.w3(h))
        return x @ self.emb.weight.T


@case
def llama():
    return Llama(), (torch.randint(0, 20, (2, 6)),)


class Classifier(nn.Module):
    def __init__(self, vocab=30, emb=8, hidden=12):
        super().__init__()
        self.hidden = hidden
        self.embedding = nn.Embedding(vocab, emb, padding_idx=0)
        self.lstm = nn.LSTM(emb, hidden, num_layers=2, batch_first=True, bidirectional=True)
        self.fc = nn.Linear(2 * hidden, 3)

    def forward(self, x):
        h0 = torch.zeros(4, x.size(0), self.hidden)
        c0 = torch.zeros(4, x.size(0), self.hidden)
        out, _ = self.lstm(self.embedding(x), (h0, c0))
        return self.fc(out[:, -1, :])


@case
def lstm_classifier():
    return Classifier(), (torch.randint(1, 30, (2, 7)),)


class Seq2Seq(nn.Module):
    def __init__(self, vocab=15, emb=8, hidden=12):
        super().__init__()
        self.src, self.tgt = nn.Embedding(vocab, emb), nn.Embedding(vocab, emb)
        self.encoder = nn.GRU(emb, hidden, batch_first=True)
        self.cell = nn.GRUCell(emb + hidden, hidden)
        self.key, self.query, self.v = nn.Linear(hidden, 10), nn.Linear(hidden, 10), nn.Linear(10, 1)
        self.out = nn.Linear(2 * hidden, vocab)

    def forward(self, src, tgt):
        memory, h = self.encoder(self.src(src))
        h, logits = h.squeeze(0), []
        for t in range(tgt.size(1)):
            e = self.v(torch.tanh(self.key(memory) + self.query(h).unsqueeze(1))).squeeze(-1)
            context = torch.bmm(e.softmax(1).unsqueeze(1), memory).squeeze(1)
            h = self.cell(torch.cat([self.tgt(tgt[:, t]), context], dim=1), h)
            logits.append(self.out(torch.cat([h, context], 1)))
        return torch.stack(logits, dim=1)


@case
def gru_seq2seq():
    return Seq2Seq(), (torch.randint(0, 15, (2, 5)), torch.randint(0, 15, (2, 4)))


class VAE(nn.Module):
    def __init__(self, d=20, hidden=16, latent=6):
        super().__init__()
        self.fc1, self.mu, self.logvar = nn.Linear(d, hidden), nn.Linear(hidden, latent), nn.Linear(hidden, latent)
        self.fc3, self.fc4 = nn.Linear(latent, hidden), nn.Linear(hidden, d)

    def forward(self, x):
        h = F.relu(self.fc1(x))
        mu, logvar = self.mu(h), self.logvar(h)
        z = mu + torch.randn_like(mu) * torch.exp(0.5 * logvar) if self.training else mu + 0.0 * logvar
        return torch.sigmoid(self.fc4(F.relu(self.fc3(z)))), mu, logvar


@case
def vae():
    return VAE(), (torch.randn(3, 20),)


class MixerBlock(nn.Module):
    def __init__(self, tokens, dim):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.t1, self.t2 = nn.Linear(tokens, 12), nn.Linear(12, tokens)
        self.c1, self.c2 = nn.Linear(dim, 24), nn.Linear(24, dim)

    def forward(self, x):
        y = self.n1(x).transpose(1, 2)
        x = x + self.t2(F.gelu(self.t1(y))).transpose(1, 2)
        return x + self.c2(F.gelu(self.c1(self.n2(x))))


class Mixer(nn.Module):
    def __init__(self, dim=16):
        super().__init__()
        self.patch, self.blocks = nn.Conv2d(3, dim, 4, 4), nn.Sequential(MixerBlock(4, dim), MixerBlock(4, dim))
        self.head = nn.Linear(dim, 5)

    def forward(self, x):
        x = self.patch(x)
        x = x.reshape(x.shape[0], x.shape[1], -1).permute(0, 2, 1)
        return self.head(self.blocks(x).mean(1))


@case
def mlp_mixer():
    return Mixer(), (torch.randn(2, 3, 8, 8),)


class Siamese(nn.Module):
    def __init__(self):
        super().__init__()
        self.tower = nn.Sequential(
            nn.Conv2d(1, 8, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(32, 16)
        )
        self.out = nn.Linear(16, 1)

    def forward(self, a, b):
        return self.out(torch.abs(self.tower(a) - self.tower(b)))


@case
def siamese():
    return Siamese(), (torch.randn(2, 1, 8, 8), torch.randn(2, 1, 8, 8))


class DLRM(nn.Module):
    def __init__(self, tables=(10, 20, 15), dim=8):
        super().__init__()
        self.tables = nn.ModuleList(nn.EmbeddingBag(n, dim, mode="sum") for n in tables)
        self.bottom = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, dim), nn.ReLU())
        pairs = (len(tables) + 1) * len(tables) // 2
        self.top = nn.Sequential(nn.Linear(dim + pairs, 12), nn.ReLU(), nn.Linear(12, 1), nn.Sigmoid())

    def forward(self, dense, sparse):
        x = self.bottom(dense)
        features = torch.stack([x, *(t(sparse[:, k : k + 1]) for k, t in enumerate(self.tables))], dim=1)
        dots = torch.bmm(features, features.transpose(1, 2))
        i, j = torch.tril_indices(4, 4, offset=-1)
        return self.top(torch.cat([x, dots[:, i, j]], dim=1))


@case
def dlrm():
    return DLRM(), (torch.randn(3, 4), torch.randint(0, 10, (3, 3)))


class GraphConv(nn.Module):
    def __init__(self, a, b):
        super().__init__()
        self.neighbours, self.own = nn.Linear(a, b, bias=False), nn.Linear(a, b)

    def forward(self, x, edges):
        source, target = edges
        messages = self.neighbours(x)[source]
        total = torch.zeros(x.size(0), messages.size(1)).index_add(0, target, messages)
        return self.own(x) + total


class GraphNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1, self.c2, self.head = GraphConv(5, 16), GraphConv(16, 12), nn.Linear(12, 3)

    def forward(self, x, edges):
        x = F.dropout(F.relu(self.c1(x, edges)), 0.1, self.training)
        return F.log_softmax(self.head(F.relu(self.c2(x, edges))), dim=1)


@case
def graph_net():
    return GraphNet(), (torch.randn(6, 5), torch.randint(0, 6, (2, 9)))


class GAT(nn.Module):
    def __init__(self, a=5, heads=4, each=3):
        super().__init__()
        self.heads, self.each = heads, each
        self.w = nn.Linear(a, heads * each, bias=False)
        self.att_src, self.att_dst = (
            nn.Parameter(torch.randn(1, heads, each)),
            nn.Parameter(torch.randn(1, heads, each)),
        )
        self.out = nn.Linear(heads * each, 2)

    def forward(self, x, adjacency):
        n = x.size(0)
        h = self.w(x).view(n, self.heads, self.each)
        e = (h * self.att_dst).sum(-1).unsqueeze(1) + (h * self.att_src).sum(-1).unsqueeze(0)
        e = F.leaky_relu(e, 0.2).masked_fill(adjacency.unsqueeze(-1) == 0, -1e9)
        y = torch.einsum("ijh,jhd->ihd", e.softmax(1), h)
        return self.out(F.elu(y.reshape(n, self.heads * self.each)))


@case
def graph_attention():
    return GAT(), (torch.randn(6, 5), torch.ones(6, 6))


class PINN(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(2, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 1)
        )

    def forward(self, x, t):
        return self.net(torch.stack([x, t], dim=-1)).squeeze(-1)


@case
def pinn():
    return PINN(), (torch.randn(5), torch.randn(5))


class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 24), nn.Tanh(), nn.Linear(24, 24), nn.Tanh())
        self.policy, self.value = nn.Linear(24, 4), nn.Linear(24, 1)

    def forward(self, x):
        h = self.body(x)
        return {"logits": self.policy(h), "value": self.value(h).squeeze(-1)}


@case
def policy_value():
    return ActorCritic(), (torch.randn(3, 6),)


class AttentionPooling(nn.Module):
    def __init__(self, dim=16):
        super().__init__()
        self.encode = nn.Sequential(nn.Linear(4, dim), nn.ReLU())
        self.score = nn.Sequential(nn.Linear(dim, 8), nn.Tanh(), nn.Linear(8, 1))
        self.query = nn.Parameter(torch.randn(1, 1, dim))
        self.attention = nn.MultiheadAttention(dim, 4, batch_first=True)
        self.head = nn.Linear(2 * dim, 3)

    def forward(self, x):
        h = self.encode(x)
        pooled = (self.score(h).softmax(dim=1) * h).sum(dim=1)
        asked, _ = self.attention(self.query.expand(len(x), -1, -1), h, h, need_weights=False)
        return self.head(torch.cat([pooled, asked[:, 0]], -1))


@case
def attention_pooling():
    return AttentionPooling(), (torch.randn(2, 5, 4),)


class Translator(nn.Module):
    def __init__(self, d=16, vocab=12):
        super().__init__()
        self.d = d
        self.embed = nn.Embedding(vocab, d)
        self.transformer = nn.Transformer(d, 4, 1, 1, 32, batch_first=True)
        self.generator = nn.Linear(d, vocab)

    def forward(self, src, tgt):
        mask = nn.Transformer.generate_square_subsequent_mask(tgt.size(1))
        y = self.transformer(self.embed(src) * math.sqrt(self.d), self.embed(tgt) * math.sqrt(self.d), tgt_mask=mask)
        return self.generator(y)


@case
def transformer():
    return Translator(), (torch.randint(0, 12, (2, 5)), torch.randint(0, 12, (2, 4)))


class Hypernetwork(nn.Module):
    """A layer whose weight another one makes: its sizes are numbers in the source."""

    def __init__(self):
        super().__init__()
        self.make, self.first = nn.Linear(3, 8 * 6), nn.Linear(4, 6)
        self.last = nn.Linear(8, 2)

    def forward(self, x, z):
        weight = self.make(z).reshape(8, 6)
        return self.last(F.relu(F.linear(F.relu(self.first(x)), weight)))


@case
def hypernetwork():
    return Hypernetwork(), (torch.randn(2, 4), torch.randn(3))


class Sorted(nn.Module):
    """Features that are sorted, whose order counts."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(4, 8), nn.Linear(8, 2)

    def forward(self, x):
        return self.last(self.first(x).sort(-1).values)


@case
def sorted_features():
    return Sorted(), (torch.randn(2, 4),)


__all__ = ["CASES"]
