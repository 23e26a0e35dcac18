"""Optimizers and learning-rate schedules with PyTorch's names: ``core.optim``."""

from __future__ import annotations

from . import lr_scheduler
from .adagrad import Adadelta, Adagrad, Adamax
from .adam import Adam, AdamW
from .nadam import NAdam, RAdam
from .optimizer import Optimizer
from .rmsprop import ASGD, RMSprop, Rprop
from .sgd import SGD

__all__ = ["ASGD", "SGD", "Adadelta", "Adagrad", "Adam", "AdamW", "Adamax", "NAdam", "Optimizer", "RAdam", "RMSprop",
           "Rprop", "lr_scheduler"]  # fmt: skip
