"""accelerate: a loop of Accelerator with a prepared model, optimizer, loader and schedule."""

import torch
from accelerate import Accelerator
from told import tell
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
data = torch.linspace(-1, 1, 32).view(8, 4)
loader = DataLoader(TensorDataset(data, data.sum(1, keepdim=True)), batch_size=2)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.9)
model, optimizer, loader, schedule = accelerator.prepare(model, optimizer, loader, schedule)
losses = []
for x, y in loader:
    with accelerator.accumulate(model):
        loss = torch.nn.functional.mse_loss(model(x), y)
        accelerator.backward(loss)
        accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
    losses.append(accelerator.gather(loss.detach()).mean().item())
tell(losses=losses, weights=list(accelerator.unwrap_model(model).parameters()))
