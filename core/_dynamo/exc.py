"""The errors of PyTorch's tracing, for programs that catch them: nothing here raises one."""

from __future__ import annotations

__all__ = ["BackendCompilerFailed", "InternalTorchDynamoError", "TorchDynamoException", "TorchRuntimeError",
           "Unsupported", "UserError"]  # fmt: skip


class TorchDynamoException(RuntimeError):
    """The base of them."""


class InternalTorchDynamoError(TorchDynamoException):
    """A fault of the tracing itself."""


class TorchRuntimeError(TorchDynamoException):
    """An op that failed in a trace."""


class Unsupported(TorchDynamoException):
    """What cannot be traced."""


class BackendCompilerFailed(TorchDynamoException):
    """A compiler that failed."""


class UserError(Unsupported):
    """A program that cannot be traced as it is."""


class TensorifyScalarRestartAnalysis(TorchDynamoException):
    """A trace that begins anew."""
