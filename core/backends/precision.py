"""How products of float32 are multiplied on a GPU: one setting behind the several names that PyTorch has for it."""

from __future__ import annotations


class _Float32Products:
    precision = "highest"  # or "high", "medium": see `core.set_float32_matmul_precision`


float32_products = _Float32Products()
