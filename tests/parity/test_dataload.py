"""`lab.dataload` on PyTorch's loaders."""

from __future__ import annotations

import time

import torch

import lab


class Slow(torch.utils.data.Dataset):
    def __len__(self):
        return 4000

    def __getitem__(self, index):
        time.sleep(0.01)
        return index


def test_workers_are_recommended_for_a_slow_loader_and_nothing_is_drawn():
    generator = torch.Generator()
    loader = torch.utils.data.DataLoader(Slow(), batch_size=4, shuffle=True, generator=generator)
    state, own = torch.get_rng_state(), generator.get_state()
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    before = model.weight.item()

    def step(batch):
        model(batch[:1].float()).sum().backward()
        optimizer.step()
        torch.rand(1)
        time.sleep(0.03)

    torch.set_rng_state(state)
    found = lab.dataload(loader, step, workers=[0, 2], batches=8)
    assert found.recommended == 2
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(generator.get_state(), own)
    assert model.weight.item() == before
    assert model.weight.grad is None


def test_a_stream_is_tried_without_workers():
    class Stream(torch.utils.data.IterableDataset):
        def __iter__(self):
            return iter(range(100))

    found = lab.dataload(torch.utils.data.DataLoader(Stream(), batch_size=4), batches=4)
    assert [t.workers for t in found.trials] == [0]
