"""curated-transformers: BERT, and Llama with a cache."""

import torch
from curated_transformers.layers import AttentionMask
from curated_transformers.models import BERTConfig, BERTEncoder, GPTNeoXCausalLM, GPTNeoXConfig
from told import steps, tell

torch.manual_seed(0)
bert = BERTEncoder(
    BERTConfig(
        embedding_width=16,
        hidden_width=16,
        intermediate_width=32,
        n_attention_heads=2,
        n_hidden_layers=2,
        n_pieces=50,
        n_positions=20,
        attention_probs_dropout_prob=0.0,
        hidden_dropout_prob=0.0,
    )
)
ids = torch.arange(12).view(2, 6)
mask = AttentionMask(torch.tensor([[True] * 6, [True] * 4 + [False] * 2]))
neo = (
    GPTNeoXCausalLM(
        GPTNeoXConfig(
            hidden_width=16,
            intermediate_width=32,
            n_query_heads=2,
            n_hidden_layers=2,
            n_pieces=50,
            n_positions=20,
            attention_probs_dropout_prob=0.0,
            hidden_dropout_prob=0.0,
        )
    )
    if "n_query_heads" in GPTNeoXConfig.__init__.__kwdefaults__
    else GPTNeoXCausalLM(
        GPTNeoXConfig(
            hidden_width=16,
            intermediate_width=32,
            n_attention_heads=2,
            n_hidden_layers=2,
            n_pieces=50,
            n_positions=20,
            attention_probs_dropout_prob=0.0,
            hidden_dropout_prob=0.0,
        )
    )
)
tell(
    bert=steps(bert.parameters(), lambda: bert(ids, mask).last_hidden_layer_state.square().mean()),
    neo=steps(neo.parameters(), lambda: neo(ids, mask).logits.square().mean()),
)
