"""PyTorch's names of its C++ part, as far as packages touch them: answers that hold here, and switches without effect.

Nothing of this is the C of this package, which is `core.native`.
"""

from __future__ import annotations

import contextlib
import enum
import sys
from collections.abc import Iterator
from typing import Any

from .accelerator import current_accelerator
from .base.absent import AbsentModule, absent_class
from .base.device import device
from .base.dtypes import dtype
from .distributed.groups import ProcessGroup, Store  # noqa: F401
from .ops.solving import LinAlgError as _LinAlgError  # noqa: F401
from .rng.generator import Generator  # noqa: F401
from .tensors.overriding import no_class_asked, nobody_asked, not_asked
from .tensors.overriding import state as _overriding
from .tensors.tensor import Tensor

TensorBase = _TensorBase = Tensor
_TensorMeta = type(Tensor)
Graph = Value = Function = Node = ScriptModule = absent_class("Graph", __name__, "A scripted graph.", "core.export")
_FILE = "core.load and core.save"
PyTorchFileReader = absent_class("PyTorchFileReader", __name__, "What reads PyTorch's files.", _FILE)
PyTorchFileWriter = absent_class("PyTorchFileWriter", __name__, "What writes PyTorch's files.", _FILE)
FunctionSchema = absent_class("FunctionSchema", __name__, "How an op is called.", "inspect.signature")
_distributed_c10d = _nn = _onnx = sys.modules[__name__]  # parts, whose names stand here


@contextlib.contextmanager
def _plain() -> Iterator[None]:
    yield


def _no(*args: Any) -> bool:
    """Return False: what is asked for is not the case here."""
    return False


def _without_effect(*args: Any, **kwargs: Any) -> None:
    """Nothing: what is set belongs to PyTorch's compiler."""


def _is_torch_function_mode_enabled() -> bool:
    """Return whether this thread is in a block of a mode."""
    return bool(_overriding.modes)


def _len_torch_function_stack() -> int:
    """Return how many modes this thread has entered."""
    return len(_overriding.modes)


_get_tracing_state = _without_effect
_are_functorch_transforms_active = _cuda_isInBadFork = _no
is_batchedtensor = is_gradtrackingtensor = is_functionaltensor = is_legacy_batchedtensor = _no
_functorch = sys.modules[f"{__name__}._functorch"] = AbsentModule(
    f"{__name__}._functorch", "core.func has the transforms"
)
_functorch.__dict__.update(is_batchedtensor=_no, is_gradtrackingtensor=_no, is_functionaltensor=_no,
                           is_legacy_batchedtensor=_no, maybe_get_bdim=lambda x: -1, maybe_get_level=lambda x: -1,
                           get_unwrapped=lambda x: x)  # fmt: skip
_has_mps = _has_cuda = _has_mkldnn = has_openmp = False
_jit_set_profiling_executor = _jit_set_profiling_mode = _jit_override_can_fuse_on_cpu = _without_effect
_jit_override_can_fuse_on_gpu = _jit_set_texpr_fuser_enabled = _jit_set_nvfuser_enabled = _without_effect
_jit_set_nvfuser_guard_mode = _jit_set_fusion_strategy = _log_api_usage_once = _without_effect
_cuda_clearCublasWorkspaces = _set_math_sdp_allow_fp16_bf16_reduction = _without_effect
_jit_can_fuse_on_cpu = _jit_can_fuse_on_gpu = _jit_set_emit_hooks = _no


def _get_accelerator() -> Any:
    """Return the device of the accelerator: the CPU's where there is none."""
    return current_accelerator() or device("cpu")


def _get_privateuse1_backend_name() -> str:
    """Return the name of a device of one's own: none has one."""
    return "privateuseone"


def _parse_to(*args: Any, **kwargs: Any) -> tuple[Any, Any, bool, Any]:
    """Return what ``to(...)`` is asked for: (device, dtype, non_blocking, memory_format)."""
    found: list[Any] = [kwargs.get("device"), kwargs.get("dtype"), kwargs.get("non_blocking", False),
                        kwargs.get("memory_format")]  # fmt: skip
    for a in args:
        if isinstance(a, Tensor):
            found[:2] = a.device, a.dtype
        elif isinstance(a, dtype):
            found[1] = a
        elif isinstance(a, bool):
            found[2] = a
        elif a is not None:
            found[0] = a
    if found[0] is not None:
        found[0] = device(found[0])
    return found[0], found[1], bool(found[2]), found[3]


def _is_alias_of(a: Any, b: Any) -> bool:
    """Return whether two tensors see the same memory."""
    return bool(a.data_ptr() == b.data_ptr())


class DispatchKey(enum.Enum):
    """PyTorch's names of where an op's kernel is looked for. Here a kernel is looked for by the device."""

    (Undefined, CPU, CUDA, XPU, MPS, Meta, AutogradCPU, AutogradCUDA, Autograd, AutocastCPU, AutocastCUDA, AutocastXPU,
     CompositeImplicitAutograd, CompositeExplicitAutograd, Functionalize, FuncTorchBatched, PythonDispatcher,
     Python) = range(18)  # fmt: skip


class DispatchKeySet(frozenset[DispatchKey]):
    """Several of them."""

    def __new__(cls, *keys: DispatchKey) -> Any:
        return super().__new__(cls, keys)

    def has(self, key: DispatchKey) -> bool:
        """Return whether one is among them."""
        return key in self


@contextlib.contextmanager
def _ExcludeDispatchKeyGuard(keys: Any) -> Iterator[None]:
    """A block in which kernels are looked for in fewer places: without effect, as they are not looked for there."""
    yield


DisableTorchFunction, DisableTorchFunctionSubclass = nobody_asked, no_class_asked
_disabled_torch_function_impl = not_asked
