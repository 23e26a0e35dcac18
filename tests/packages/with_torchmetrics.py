"""torchmetrics: accuracy, F1, AUROC, confusion matrix, mean squared error, R2, SSIM."""

import torch
import torchmetrics
from told import tell

torch.manual_seed(0)
scores, target = torch.randn(64, 4).softmax(-1), torch.randint(4, (64,))
a, b = torch.rand(2, 3, 32, 32), torch.rand(2, 3, 32, 32)
accuracy = torchmetrics.Accuracy(task="multiclass", num_classes=4)
for part in (slice(0, 32), slice(32, 64)):
    accuracy.update(scores[part], target[part])
regression = torchmetrics.MetricCollection([torchmetrics.MeanSquaredError(), torchmetrics.R2Score()])
regression.update(a.flatten(), b.flatten())
tell(
    accuracy=accuracy.compute(),
    f1=torchmetrics.F1Score(task="multiclass", num_classes=4, average="macro")(scores, target),
    auroc=torchmetrics.AUROC(task="multiclass", num_classes=4)(scores, target),
    matrix=torchmetrics.ConfusionMatrix(task="multiclass", num_classes=4)(scores, target),
    regression=regression.compute(),
    ssim=torchmetrics.image.StructuralSimilarityIndexMeasure(data_range=1.0)(a, b),
)
