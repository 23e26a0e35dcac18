"""Passes over graphs, under PyTorch's paths: `shape_prop`, `infra.pass_base`."""
