"""The modules, under PyTorch's path ``nn.modules``."""

from __future__ import annotations

from .activation import (
    ELU,
    GELU,
    Hardtanh,
    LeakyReLU,
    LogSigmoid,
    LogSoftmax,
    ReLU,
    ReLU6,
    Sigmoid,
    SiLU,
    Softmax,
    Softplus,  # fmt: skip
    Tanh,
)
from .container import ModuleDict, ModuleList, Sequential
from .dropout import Dropout
from .linear import Bilinear, Flatten, Identity, Linear, Unflatten
from .loss import (
    BCELoss,
    BCEWithLogitsLoss,
    CrossEntropyLoss,
    HuberLoss,
    KLDivLoss,
    L1Loss,
    MSELoss,
    NLLLoss,
    SmoothL1Loss,  # fmt: skip
)
from .module import Module
from .normalization import LayerNorm, RMSNorm
from .parameters import ParameterDict, ParameterList
from .sparse import Embedding

__all__ = ["BCELoss", "BCEWithLogitsLoss", "Bilinear", "CrossEntropyLoss", "Dropout", "ELU", "Embedding", "Flatten",
           "GELU", "Hardtanh", "HuberLoss", "Identity", "KLDivLoss", "L1Loss", "LayerNorm", "LeakyReLU", "Linear",
           "LogSigmoid", "LogSoftmax", "MSELoss", "Module", "ModuleDict", "ModuleList", "NLLLoss", "ParameterDict",
           "ParameterList", "RMSNorm", "ReLU", "ReLU6", "Sequential", "SiLU", "Sigmoid", "SmoothL1Loss", "Softmax",
           "Softplus", "Tanh", "Unflatten"]  # fmt: skip
