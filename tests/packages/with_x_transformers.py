"""x-transformers: a decoder with rotary positions, two steps of language modelling."""

import torch
from told import steps, tell
from x_transformers import AutoregressiveWrapper, Decoder, TransformerWrapper

torch.manual_seed(0)
net = TransformerWrapper(num_tokens=32, max_seq_len=16,
                         attn_layers=Decoder(dim=32, depth=2, heads=2, rotary_pos_emb=True))  # fmt: skip
model = AutoregressiveWrapper(net)
tokens = torch.arange(2 * 12).view(2, 12) * 7 % 32
tell(trained=steps(model.parameters(), lambda: model(tokens)), logits=net(tokens)[:, -1])
