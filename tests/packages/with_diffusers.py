"""diffusers: a small UNet2DModel with DDPM's noise, two steps, and three steps of DDIM."""

import torch
from diffusers import DDIMScheduler, DDPMScheduler, UNet2DModel
from told import steps, tell

torch.manual_seed(0)
model = UNet2DModel(sample_size=16, in_channels=1, out_channels=1, layers_per_block=1, block_out_channels=(32, 32),
                    down_block_types=("DownBlock2D", "AttnDownBlock2D"),
                    up_block_types=("AttnUpBlock2D", "UpBlock2D"))  # fmt: skip
x = torch.linspace(-1, 1, 2 * 256).view(2, 1, 16, 16)
noise, times = torch.sin(9 * x), torch.tensor([10, 500])
noisy = DDPMScheduler().add_noise(x, noise, times)
trained = steps(model.parameters(), lambda: torch.nn.functional.mse_loss(model(noisy, times).sample, noise))
ddim = DDIMScheduler()
ddim.set_timesteps(3)
sample = noise
with torch.no_grad():
    for t in ddim.timesteps:
        sample = ddim.step(model(sample, t).sample, t, sample).prev_sample
tell(trained=trained, sample=sample)
