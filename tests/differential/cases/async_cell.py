# ways: cell
import asyncio

import torch

w = torch.ones(3, requires_grad=True)


async def step(i):
    y = (w * i).sum()
    await asyncio.sleep(0.001 * (3 - i))
    y.backward()
    return y.item()


values = await asyncio.gather(*[step(i) for i in range(3)])
print(values, w.grad)
# %%
async for_later = 1
# %%
async def failing():
    await asyncio.sleep(0)
    return torch.ones(2, 3) @ torch.ones(2, 3)


await failing()
# %%
await asyncio.sleep(0)
task = asyncio.get_running_loop().create_task(step(2))
print((w * 2).sum().item())
# %%
print(await task, w.grad)
