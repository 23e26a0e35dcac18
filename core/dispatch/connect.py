"""Hands the C extension what its fast paths need of Python: types, state, and the general ways they fall back to."""

from __future__ import annotations

import numpy as np

from .. import backends, native
from ..backends.sum_to import sum_to
from ..base import dtypes
from ..base.device import cpu
from ..base.modes import state as mode
from ..base.source import ours, user_frame
from ..events import observe
from ..graph.node import Node, Storage
from ..graph.versions import refresh, storage_of
from ..tensors.tensor import Tensor
from . import saved_tensor_hooks
from .structured import kind_named, mark_views, operate

if native.module is not None:
    native.module.connect(
        tensor_type=Tensor, node_type=Node, observe=vars(observe), saving=vars(saved_tensor_hooks), mode=mode,
        ours=ours, user_frame=user_frame, refresh=refresh, storage_of=storage_of, storage_type=Storage, cpu=cpu,
        rows=backends.rows, operate=operate, mark_views=mark_views, numpy=np,
        add_float=native.module.maps.get(("add", "f")), add_double=native.module.maps.get(("add", "d")),
        sum_to=sum_to,
    )  # fmt: skip
    native.module.connect_results(kind_named)
    for _dtype in (*dtypes.all_dtypes, *dtypes.stored_dtypes):
        native.module.register_dtype(_dtype.name, _dtype)
