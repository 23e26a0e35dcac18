"""fastai: its tensors (TensorBase and kinds), what they give back, and its losses, metrics, layers and optimizers."""

import torch
from fastai.layers import ConvLayer, LinBnDrop, PoolFlatten
from fastai.losses import CrossEntropyLossFlat, LabelSmoothingCrossEntropy, MSELossFlat
from fastai.optimizer import Adam
from fastai.torch_core import TensorBase, TensorCategory, TensorImage, TensorMask, cast, to_concat, to_detach
from told import steps, tell

torch.manual_seed(0)
image = TensorImage(torch.linspace(-1, 1, 2 * 3 * 8 * 8).view(2, 3, 8, 8))
mask = TensorMask(torch.arange(4).view(2, 2))
kinds = [type(image + 1) is TensorImage, type(image[0]) is TensorImage, type(image.mean()) is TensorImage,
         type(mask.float()) is TensorMask, type(cast(image, TensorBase)) is TensorBase,
         isinstance(to_concat([mask, mask]), TensorMask),
         type(image.as_subclass(torch.Tensor)) is torch.Tensor]  # fmt: skip
model = torch.nn.Sequential(ConvLayer(3, 4), PoolFlatten(), LinBnDrop(4, 3))
target = TensorCategory(torch.tensor([0, 2]))
smoothed = LabelSmoothingCrossEntropy()
trained = steps(model.parameters(), lambda: CrossEntropyLossFlat()(model(image), target)
                + smoothed(model(image.as_subclass(torch.Tensor)), target.as_subclass(torch.Tensor)))  # fmt: skip
by_fastai = steps(model.parameters(), lambda: MSELossFlat()(model(image)[:, 0], torch.zeros(2)),
                  Adam(list(model.parameters()), lr=0.01))  # fmt: skip
tell(kinds=kinds, trained=trained, by_fastai=by_fastai, image=to_detach(image.flip(-1)[0, 0]))
