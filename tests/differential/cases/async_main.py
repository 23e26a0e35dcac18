# ways: script block
import asyncio

import torch


async def stream(n):
    for i in range(n):
        await asyncio.sleep(0)
        yield torch.full((2,), float(i), requires_grad=True)


async def main():
    total = 0.0
    async for x in stream(4):
        (x * x).sum().backward()
        total += x.grad.sum().item()
    return total


print(asyncio.run(main()))
