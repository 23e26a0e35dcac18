"""torcheval: metrics as functions and as objects."""

import torch
import torcheval.metrics.functional as F
from told import tell
from torcheval.metrics import (
    BinaryAUROC,
    Mean,
    MulticlassAccuracy,
    MulticlassConfusionMatrix,
    PeakSignalNoiseRatio,
    Perplexity,
    R2Score,
)

p = torch.tensor([0.1, 0.7, 0.4, 0.9, 0.3])
t = torch.tensor([0, 1, 0, 1, 1])
many = torch.linspace(-1, 1, 20).view(5, 4).sin()
label = torch.tensor([0, 1, 2, 3, 0])
found = {"entropy": F.binary_normalized_entropy(p, t.float())} | {
    n: getattr(F, n)(p, t)
    for n in (
        "binary_accuracy",
        "binary_auroc",
        "binary_auprc",
        "binary_f1_score",
        "binary_precision",
        "binary_recall",
        "binary_confusion_matrix",
    )
}
found |= {
    n: getattr(F, n)(many, label)
    for n in ("multiclass_accuracy", "multiclass_f1_score", "multiclass_precision", "hit_rate", "reciprocal_rank")
}
found["auroc"] = F.multiclass_auroc(many, label, num_classes=4)
found["curve"] = list(F.binary_precision_recall_curve(p, t))
found["bleu"] = F.bleu_score(["the cat sat on the mat"], [["the cat sat on a mat"]], n_gram=2)
found["wer"] = F.word_error_rate(["hello world"], ["hello there world"])
for name, m, args in (
    ("acc", MulticlassAccuracy(), (many, label)),
    ("cm", MulticlassConfusionMatrix(4), (many, label)),
    ("au", BinaryAUROC(), (p, t)),
    ("mean", Mean(), (p,)),
    ("r2", R2Score(), (p, t.float())),
    ("psnr", PeakSignalNoiseRatio(), (many, many + 0.1)),
    ("perplexity", Perplexity(), (many[None], label[None])),
):
    m.update(*args)
    m.update(*args)
    found[name] = m.compute()
    copy = type(m)(4) if name == "cm" else type(m)()
    copy.load_state_dict(m.state_dict())
    copy.merge_state([m])
    found[name + " merged"] = copy.compute()
tell(**found)
