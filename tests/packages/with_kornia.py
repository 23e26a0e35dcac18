"""kornia: filters, colours, a warp and a loss, with gradients."""

import kornia
import torch
from told import steps, tell

torch.manual_seed(0)
x = torch.rand(2, 3, 16, 16)
angle = torch.nn.Parameter(torch.tensor([10.0, 20.0]))
tell(
    blurred=kornia.filters.gaussian_blur2d(x, (3, 3), (1.5, 1.5)),
    edges=kornia.filters.sobel(x),
    gray=kornia.color.rgb_to_grayscale(x),
    hsv=kornia.color.rgb_to_hsv(x),
    trained=steps([angle], lambda: kornia.geometry.transform.rotate(x, angle).square().mean()),
    ssim=kornia.metrics.ssim(x, x.flip(-1), 5),
)
