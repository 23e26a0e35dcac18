"""lightning: a module fitted by Trainer for an epoch on the CPU."""

import logging
import warnings

import lightning as L
import torch
from told import tell
from torch.utils.data import DataLoader, TensorDataset

warnings.simplefilter("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
losses = []


class Model(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))

    def training_step(self, batch, index):
        loss = torch.nn.functional.mse_loss(self.net(batch[0]), batch[1])
        losses.append(loss.item())
        self.log("loss", loss)
        return loss

    def validation_step(self, batch, index):
        self.log("validation", torch.nn.functional.mse_loss(self.net(batch[0]), batch[1]))

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.01)


L.seed_everything(0, verbose=False)
data = torch.linspace(-1, 1, 64).view(16, 4)
loader = DataLoader(TensorDataset(data, data.sum(1, keepdim=True)), batch_size=4)
trainer = L.Trainer(max_epochs=2, accelerator="cpu", logger=False, enable_checkpointing=False,
                    enable_progress_bar=False, enable_model_summary=False)  # fmt: skip
model = Model()
trainer.fit(model, loader, loader)
tell(losses=losses, validation=trainer.callback_metrics["validation"], weights=list(model.parameters()))
