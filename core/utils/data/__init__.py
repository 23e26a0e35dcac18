"""Data sets, the order they are read in, and batches: ``core.utils.data``."""

from __future__ import annotations

from .collate import default_collate, default_convert
from .dataloader import DataLoader
from .datapipes import IterDataPipe, MapDataPipe, functional_datapipe
from .dataset import (
    ChainDataset,
    ConcatDataset,
    Dataset,
    IterableDataset,
    StackDataset,
    Subset,
    TensorDataset,
    random_split,  # fmt: skip
)
from .distributed import DistributedSampler
from .info import WorkerInfo, get_worker_info
from .sampler import (
    BatchSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,  # fmt: skip
)
from .tokens import PackCollate, PadCollate, TokenBatchSampler

__all__ = ["BatchSampler", "ChainDataset", "ConcatDataset", "DataLoader", "Dataset", "DistributedSampler",
           "IterDataPipe", "IterableDataset", "MapDataPipe", "PackCollate", "PadCollate", "RandomSampler", "Sampler",
           "SequentialSampler", "StackDataset", "Subset", "SubsetRandomSampler", "TensorDataset", "TokenBatchSampler",
           "WeightedRandomSampler", "WorkerInfo", "default_collate", "default_convert", "functional_datapipe",
           "get_worker_info", "random_split"]  # fmt: skip
