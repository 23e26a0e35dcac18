"""transformers: GPT-2, BERT and ViT from their configurations, two steps each, and greedy generation."""

import torch
from told import steps, tell
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    GPT2Config,
    GPT2LMHeadModel,
    ViTConfig,
    ViTForImageClassification,
)

small = {"num_hidden_layers": 2, "hidden_size": 32, "num_attention_heads": 2, "intermediate_size": 64}
tokens, labels = torch.arange(2 * 10).view(2, 10) * 5 % 50, torch.tensor([0, 1])
torch.manual_seed(0)
gpt = GPT2LMHeadModel(GPT2Config(vocab_size=50, n_positions=32, n_embd=32, n_layer=2, n_head=2, resid_pdrop=0.0,
                                 embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=0, eos_token_id=49))  # fmt: skip
trained = steps(gpt.parameters(), lambda: gpt(input_ids=tokens, labels=tokens).loss)
gpt.eval()
generated = gpt.generate(tokens[:1, :4], attention_mask=torch.ones(1, 4), max_new_tokens=6, do_sample=False,
                         pad_token_id=49)  # fmt: skip
torch.manual_seed(0)
bert = BertForSequenceClassification(BertConfig(vocab_size=50, hidden_dropout_prob=0.0,
                                                attention_probs_dropout_prob=0.0, **small))  # fmt: skip
bert_trained = steps(bert.parameters(), lambda: bert(input_ids=tokens, labels=labels).loss)
torch.manual_seed(0)
vit = ViTForImageClassification(ViTConfig(image_size=32, patch_size=8, hidden_dropout_prob=0.0,
                                          attention_probs_dropout_prob=0.0, num_labels=2, **small))  # fmt: skip
images = torch.linspace(-1, 1, 2 * 3 * 32 * 32).view(2, 3, 32, 32)
vit_trained = steps(vit.parameters(), lambda: vit(pixel_values=images, labels=labels).loss)
tell(gpt2=trained, generated=generated, bert=bert_trained, vit=vit_trained)
