"""rotary-embedding-torch: queries and keys turned, plain, xpos and axial."""

import torch
from rotary_embedding_torch import RotaryEmbedding, apply_rotary_emb
from told import steps, tell

rotary = RotaryEmbedding(dim=8, learned_freq=True)
xpos = RotaryEmbedding(dim=8, use_xpos=True)
axial = RotaryEmbedding(dim=8, freqs_for="pixel", max_freq=16)
q = torch.linspace(-1, 1, 2 * 3 * 5 * 16).view(2, 3, 5, 16)
k = q.flip(-1)
tell(
    trained=steps(
        rotary.parameters(), lambda: (rotary.rotate_queries_or_keys(q) @ k.transpose(-1, -2)).square().mean()
    ),
    xpos=xpos.rotate_queries_and_keys(q, k),
    axial=apply_rotary_emb(axial.get_axial_freqs(3, 5), q),
)
