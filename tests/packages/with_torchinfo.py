"""torchinfo: the summary of a convolutional model."""

import torch
import torchinfo
from told import tell

model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(8 * 36, 5))
columns = ("output_size", "num_params", "mult_adds")
found = torchinfo.summary(model, input_size=(2, 3, 8, 8), verbose=0, col_names=columns)
tell(parameters=found.total_params, trainable=found.trainable_params, mult_adds=found.total_mult_adds,
     bytes=found.total_output_bytes, lines=len(str(found).splitlines()))  # fmt: skip
