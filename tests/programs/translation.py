"""A Transformer translates lines of Python's standard library into the kinds of tokens they are made of.

The pairs are real: the source is the characters of a line, the target is what Python's own tokenizer says of it.
"""

import inspect
import io
import math
import random as python_random
import textwrap
import tokenize

import core as torch
from core import Tensor, nn
from core.nn.utils.rnn import pad_sequence

PAD_IDX, BOS_IDX, EOS_IDX = 0, 1, 2


def read_pairs(module=textwrap, longest=40):
    pairs = []
    for line in inspect.getsource(module).splitlines():
        line = line.strip()
        if not 3 < len(line) < longest or line.startswith(("#", '"')):
            continue
        try:
            tokens = list(tokenize.generate_tokens(io.StringIO(line).readline))
        except (tokenize.TokenError, IndentationError):
            continue
        kinds = [tokenize.tok_name[t.type] for t in tokens if t.string.strip()]
        pairs.append((list(line), kinds))
    return pairs


class Vocabulary:
    def __init__(self, sentences):
        self.itos = ["<pad>", "<bos>", "<eos>", *sorted({token for sentence in sentences for token in sentence})]
        self.stoi = {token: i for i, token in enumerate(self.itos)}

    def __len__(self):
        return len(self.itos)

    def encode(self, sentence):
        return torch.tensor([BOS_IDX] + [self.stoi[token] for token in sentence] + [EOS_IDX])


pairs = read_pairs(python_random) + read_pairs(textwrap)
source_vocabulary = Vocabulary([source for source, _ in pairs])
target_vocabulary = Vocabulary([target for _, target in pairs])
training, test = pairs[:-40], pairs[-40:]


def collate(batch):
    """(S, N) and (T, N): the longest sentence's length by the batch."""
    source = pad_sequence([source_vocabulary.encode(s) for s, _ in batch], padding_value=PAD_IDX)
    target = pad_sequence([target_vocabulary.encode(t) for _, t in batch], padding_value=PAD_IDX)
    return source, target


class PositionalEncoding(nn.Module):
    def __init__(self, emb_size, dropout, maxlen=100):
        super().__init__()
        den = torch.exp(-torch.arange(0, emb_size, 2) * math.log(10000) / emb_size)
        pos = torch.arange(0, maxlen).reshape(maxlen, 1)
        pos_embedding = torch.zeros((maxlen, emb_size))
        pos_embedding[:, 0::2] = torch.sin(pos * den)
        pos_embedding[:, 1::2] = torch.cos(pos * den)
        self.dropout = nn.Dropout(dropout)
        self.register_buffer("pos_embedding", pos_embedding.unsqueeze(-2))

    def forward(self, token_embedding: Tensor):
        return self.dropout(token_embedding + self.pos_embedding[: token_embedding.size(0), :])


class Seq2SeqTransformer(nn.Module):
    def __init__(self, emb_size=48, nhead=4, layers=2, dim_feedforward=96, dropout=0.1):
        super().__init__()
        self.transformer = nn.Transformer(
            d_model=emb_size,
            nhead=nhead,
            num_encoder_layers=layers,
            num_decoder_layers=layers,
            dim_feedforward=dim_feedforward,
            dropout=dropout,
        )
        self.generator = nn.Linear(emb_size, len(target_vocabulary))
        self.src_tok_emb = nn.Embedding(len(source_vocabulary), emb_size, padding_idx=PAD_IDX)
        self.tgt_tok_emb = nn.Embedding(len(target_vocabulary), emb_size, padding_idx=PAD_IDX)
        self.positional_encoding = PositionalEncoding(emb_size, dropout)
        self.scale = math.sqrt(emb_size)
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.xavier_uniform_(p)

    def encode(self, src, src_padding):
        embedded = self.positional_encoding(self.src_tok_emb(src) * self.scale)
        return self.transformer.encoder(embedded, src_key_padding_mask=src_padding)

    def decode(self, tgt, memory, tgt_padding, memory_padding):
        tgt_mask = nn.Transformer.generate_square_subsequent_mask(tgt.size(0), dtype=torch.bool)
        embedded = self.positional_encoding(self.tgt_tok_emb(tgt) * self.scale)
        out = self.transformer.decoder(
            embedded,
            memory,
            tgt_mask=tgt_mask,
            tgt_key_padding_mask=tgt_padding,
            memory_key_padding_mask=memory_padding,
        )
        return self.generator(out)

    def forward(self, src, tgt):
        src_padding, tgt_padding = (src == PAD_IDX).transpose(0, 1), (tgt == PAD_IDX).transpose(0, 1)
        return self.decode(tgt, self.encode(src, src_padding), tgt_padding, src_padding)


def train(model, steps, batch_size=24):
    loss_fn = nn.CrossEntropyLoss(ignore_index=PAD_IDX)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3, betas=(0.9, 0.98), eps=1e-9)
    model.train()
    for _ in range(steps):
        src, tgt = collate([training[i] for i in torch.randperm(len(training))[:batch_size].tolist()])
        logits = model(src, tgt[:-1, :])
        optimizer.zero_grad()
        loss = loss_fn(logits.reshape(-1, logits.shape[-1]), tgt[1:, :].reshape(-1))
        loss.backward()
        optimizer.step()
        yield loss.item()


@torch.no_grad()
def translate(model, source, longest=30):
    model.eval()
    src = source_vocabulary.encode(source).view(-1, 1)
    memory = model.encode(src, None)
    ys = torch.full((1, 1), BOS_IDX, dtype=torch.long)
    for _ in range(longest):
        next_word = model.decode(ys, memory, None, None)[-1, 0].argmax().item()
        if next_word == EOS_IDX:
            break
        ys = torch.cat([ys, torch.full((1, 1), next_word, dtype=torch.long)], dim=0)
    return [target_vocabulary.itos[i] for i in ys.flatten()[1:].tolist()]


def losses(steps):
    torch.manual_seed(0)
    return list(train(Seq2SeqTransformer(), steps))


if __name__ == "__main__":
    torch.manual_seed(0)
    model = Seq2SeqTransformer()
    for step, loss in enumerate(train(model, 400)):
        if step % 40 == 0:
            print(f"step {step:4d}  loss {loss:.4f}")
    for source, _ in test[:3]:
        print("".join(source), "->", " ".join(translate(model, source)))
    right = sum(translate(model, source) == target for source, target in test)
    print(f"{right} of {len(test)} lines it has not seen are translated without a fault.")
