"""julius: filters, resampling and convolution by FFT."""

import julius
import torch
from told import steps, tell

x = torch.sin(torch.linspace(0, 300, 1000)).view(1, 1, -1)
torch.manual_seed(0)
conv = julius.FFTConv1d(1, 2, 64, stride=2)
tell(
    trained=steps(conv.parameters(), lambda: conv(x).square().mean()),
    low=julius.lowpass_filter(x, 0.1),
    high=julius.highpass_filter(x, 0.2),
    band=julius.bandpass_filter(x, 0.1, 0.3),
    resampled=julius.resample_frac(x, 4, 5),
    split=julius.split_bands(x, 100, n_bands=4),
)
