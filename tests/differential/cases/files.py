import json
import logging
import os
from pathlib import Path

import numpy as np
import torch

torch.manual_seed(0)
logging.basicConfig(filename="log.txt", level=logging.DEBUG, format="%(levelname)s %(name)s %(funcName)s %(message)s")
w = torch.randn(4, requires_grad=True)
for i in range(3):
    loss = (w * w).sum()
    loss.backward()
    logging.info("loss %.4f", loss.item())
Path("out").mkdir()
np.save("out/w.npy", w.detach().numpy())
np.savetxt("out/w.txt", w.detach().numpy())
json.dump(w.tolist(), open("out/w.json", "w"))
torch.save(w.detach(), "out/w.pt")
(w * 2).detach().numpy().tofile("out/w.bin")
with open("out/log.txt", "a") as file:
    print(w, file=file)
os.rename("out/w.txt", "out/v.txt")
print(sorted(os.listdir("out")))
import matplotlib.pyplot as plt

plt.plot(w.detach().numpy())
plt.savefig("out/plot.png", metadata={"Software": None})
plt.close("all")
