"""Every layer, loss, optimizer and schedule of PyTorch beside `core`'s: ``python -m tests.parity.blocks``."""
