"""Data sets of pictures, read from local files: ``core.vision.datasets``. Nothing is downloaded."""

from __future__ import annotations

from .base import VisionDataset
from .cifar import CIFAR10, CIFAR100
from .fake import FakeData
from .folder import IMG_EXTENSIONS, DatasetFolder, ImageFolder, default_loader, find_classes, make_dataset
from .mnist import EMNIST, KMNIST, MNIST, FashionMNIST

__all__ = ["CIFAR10", "CIFAR100", "EMNIST", "IMG_EXTENSIONS", "KMNIST", "MNIST", "DatasetFolder", "FakeData",
           "FashionMNIST", "ImageFolder", "VisionDataset", "default_loader", "find_classes",
           "make_dataset"]  # fmt: skip
