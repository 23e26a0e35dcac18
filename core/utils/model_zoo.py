"""PyTorch's older path of weights by address: `load_url`, which is `hub.load_state_dict_from_url`."""

from __future__ import annotations

from ..hub_urls import load_state_dict_from_url as load_url

__all__ = ["load_url"]
