"""Tensors and define-by-run automatic differentiation with PyTorch's names and meaning: ``import core as torch``.

Hot paths are C on the CPU and Triton kernels on a GPU; plain scripts need NumPy (and ml_dtypes) alone.

>>> import core as torch
>>> x = torch.tensor(2.0, requires_grad=True)
>>> (x**3 + 3 * x**2 + 5).backward()
>>> x.grad
tensor(24.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .base.collector import paused as _paused

with _paused():  # nothing here is garbage, and looking for it is a tenth of the import
    from . import autograd, backends, cpu, cuda
    from . import ops as _ops  # first: the ops bind themselves to Tensor
from .amp import autocast
from .amp.autocast_mode import (
    autocast_decrement_nesting,
    autocast_increment_nesting,
    clear_autocast_cache,
    get_autocast_cpu_dtype,
    get_autocast_dtype,
    get_autocast_gpu_dtype,
    is_autocast_cache_enabled,
    is_autocast_cpu_enabled,
    is_autocast_enabled,
    set_autocast_cache_enabled,
    set_autocast_cpu_dtype,
    set_autocast_cpu_enabled,
    set_autocast_dtype,
    set_autocast_enabled,
    set_autocast_gpu_dtype,
)
from .autograd import enable_grad, inference_mode, is_grad_enabled, no_grad, set_grad_enabled
from .backends import cpu as _cpu_kernels  # which registers itself, as that of cuda does
from .base import shadowing as _shadowing
from .base.device import device
from .base.dtypes import (
    bfloat16,
    complex32,
    complex64,
    complex128,
    dtype,
    float4_e2m1fn_x2,
    float8_e4m3fn,
    float8_e4m3fnuz,
    float8_e5m2,
    float8_e5m2fnuz,
    float8_e8m0fnu,
    float16,
    float32,
    float64,
    get_default_dtype,  # fmt: skip
    int1,
    int2,
    int3,
    int4,
    int5,
    int6,
    int7,
    int8,
    int16,
    int32,
    int64,
    promote_types,
    qint8,
    qint32,
    quint2x4,
    quint4x2,
    quint8,
    set_default_dtype,
    uint1,
    uint2,
    uint3,
    uint4,
    uint5,
    uint6,
    uint7,
    uint8,
    uint16,
    uint32,
    uint64,
)
from .base.dtypes import bool_ as bool
from .base.foreach_names import EVERY as _foreach_names
from .base.layouts import jagged, layout, sparse_bsc, sparse_bsr, sparse_coo, sparse_csc, sparse_csr, strided
from .base.lazy_import import lazy_attributes as _late
from .base.modes import is_inference_mode_enabled
from .base.shape import Size
from .dispatch import publish as _publish
from .dispatch import several_gpus as _several_gpus  # it tells backends.cuda of itself
from .dispatch.explain import explain
from .ops import numpy_protocol as _numpy_protocol
from .ops.conversion import get_default_device, set_default_device
from .ops.queries import (
    are_deterministic_algorithms_enabled,
    can_cast,
    channels_last,
    channels_last_3d,
    contiguous_format,
    e,
    finfo,
    get_deterministic_debug_mode,
    get_device,
    get_float32_matmul_precision,
    get_num_interop_threads,
    get_num_threads,
    iinfo,
    inf,
    is_complex,
    is_deterministic_algorithms_warn_only_enabled,
    is_floating_point,
    is_inference,
    is_nonzero,
    is_same_size,
    is_signed,
    is_storage,
    is_tensor,
    legacy_contiguous_format,
    memory_format,
    nan,
    newaxis,
    numel,
    pi,
    preserve_format,
    result_type,
    set_deterministic_debug_mode,
    set_float32_matmul_precision,
    set_num_threads,
    typename,
    use_deterministic_algorithms,
)
from .rng.generator import (
    Generator,
    default_generator,
    get_rng_state,
    initial_seed,
    manual_seed,
    seed,
    set_rng_state,  # fmt: skip
)
from .serialization import load, save
from .tensors.printing import set_printoptions
from .tensors.tensor import Tensor

from . import fft, linalg, special  # isort: skip - after the ops

if TYPE_CHECKING:  # what is bound below, as core.stubs prints it from the functions' headers
    from .native.generated.functions import *  # noqa: F403
else:
    from .ops.creation import (
        arange,
        as_tensor,
        asarray,
        empty,
        empty_like,
        eye,
        from_numpy,
        full,
        full_like,
        linspace,
        logspace,
        ones,
        ones_like,
        scalar_tensor,
        tensor,
        tril_indices,
        triu_indices,
        zeros,  # fmt: skip
        zeros_like,
    )
    from .random import normal, rand, rand_like, randint, randint_like, randn, randn_like, randperm

if TYPE_CHECKING:
    from . import (
        accelerator,
        amp,
        array_api,
        audio,
        compiler,
        distributed,
        distributions,
        func,
        futures,
        fx,
        hub,
        jit,
        library,
        metrics,
        mps,
        mtia,
        multiprocessing,
        nested,
        nn,
        onnx,
        optim,
        overrides,
        profiler,
        quantization,
        serialization,
        signal,
        sparse,
        storage,
        testing,
        text,
        types,
        utils,
        version,
        vision,
        xpu,
    )
    from ._C import PyTorchFileReader, PyTorchFileWriter
    from .alias import as_torch
    from .ao.quantization import quantize_
    from .base.gpu_errors import AcceleratorError, OutOfMemoryError
    from .compiled.step import compile_step
    from .compiler import compile
    from .cuda.streams import Event, Stream
    from .export import CallableModule, script
    from .func import vmap
    from .futures import Future
    from .jit import ScriptModule
    from .ops.legacy_types import (
        BFloat16Tensor,
        BoolTensor,
        ByteTensor,
        CharTensor,
        DoubleTensor,
        FloatTensor,
        HalfTensor,
        IntTensor,
        LongTensor,
        ShortTensor,
        set_default_tensor_type,
    )
    from .sparse.making import sparse_compressed_tensor, sparse_coo_tensor, sparse_csc_tensor, sparse_csr_tensor
    from .sparse.products import spmm
    from .storage import (
        BFloat16Storage,
        BoolStorage,
        ByteStorage,
        CharStorage,
        ComplexDoubleStorage,
        ComplexFloatStorage,
        DoubleStorage,
        FloatStorage,
        HalfStorage,
        IntStorage,
        LongStorage,
        ShortStorage,
        TypedStorage,
        UntypedStorage,
    )
    from .symbolic import (
        SymBool,
        SymFloat,
        SymInt,
        sym_float,
        sym_int,
        sym_ite,
        sym_max,
        sym_min,
        sym_not,
        sym_sqrt,
        sym_sum,
    )

    export: CallableModule

# what not every program uses is imported when it is asked for
_LATE = {
    **dict.fromkeys(["amp", "ao", "array_api", "audio", "distributions", "export", "func", "fx", "hub", "jit",
                     "library", "masked", "metrics", "nested", "nn", "onnx", "optim", "signal", "sparse", "text",
                     "utils", "vision"], ""),
    **dict.fromkeys(["accelerator", "compiler", "distributed", "futures", "mps", "mtia", "multiprocessing", "overrides",
                     "profiler", "quantization", "storage", "testing", "types", "xpu", "_C", "_dynamo", "_jit_internal",
                     "_subclasses", "_utils", "__config__", "_tensor_str"], ""),
    "compile": "compiler",
    "compile_step": "compiled.step",
    "Future": "futures",
    **dict.fromkeys(["PyTorchFileReader", "PyTorchFileWriter"], "_C"),
    **dict.fromkeys(["Event", "Stream"], "cuda.streams"),
    "ScriptModule": "jit",
    **dict.fromkeys(["SymBool", "SymFloat", "SymInt", "sym_float", "sym_int", "sym_ite", "sym_max", "sym_min",
                     "sym_not", "sym_sqrt", "sym_sum", "_assert", "_assert_async", "_check", "_check_index",
                     "_check_is_size", "_check_not_implemented", "_check_tensor_all", "_check_tensor_all_with",
                     "_check_type", "_check_value", "_check_with"], "symbolic"),
    "vmap": "func",
    **dict.fromkeys(["BFloat16Tensor", "BoolTensor", "ByteTensor", "CharTensor", "DoubleTensor", "FloatTensor",
                     "HalfTensor", "IntTensor", "LongTensor", "ShortTensor"], "ops.legacy_types"),
    "set_default_tensor_type": "ops.legacy_types",
    **dict.fromkeys(["AcceleratorError", "OutOfMemoryError"], "base.gpu_errors"),
    **dict.fromkeys(["sparse_compressed_tensor", "sparse_coo_tensor", "sparse_csc_tensor", "sparse_csr_tensor"],
                    "sparse.making"),
    "script": "export",
    "spmm": "sparse.products",
    **dict.fromkeys(["TypedStorage", "UntypedStorage"], "storage"),
    **dict.fromkeys(["BFloat16Storage", "BoolStorage", "ByteStorage", "CharStorage", "ComplexDoubleStorage",
                     "ComplexFloatStorage", "DoubleStorage", "FloatStorage", "HalfStorage", "IntStorage", "LongStorage",
                     "ShortStorage"], "storage"),
    **dict.fromkeys(_foreach_names, "ops.foreach"),
    "as_torch": "alias",
    **dict.fromkeys(["binomial", "cond", "dropout", "dsmm", "expand_copy", "fake_quantize_per_channel_affine",
                     "eig", "fake_quantize_per_tensor_affine", "from_file", "get_device_module", "matrix_rank",
                     "range", "set_vital", "solve", "symeig", "while_loop"],
                    "rarer_names"),
    **dict.fromkeys(["per_channel_affine", "per_channel_affine_float_qparams", "per_channel_symmetric",
                     "per_tensor_affine", "per_tensor_symmetric", "qscheme"], "base.qschemes"),
    **dict.fromkeys(["Storage", "StorageBase"], "storage"),
    "GradScaler": "amp",
    "quantize_": "ao.quantization",
    "version": "",
}  # fmt: skip
if not TYPE_CHECKING:  # a type checker would take any name for a good one
    __getattr__ = _late(__name__, _LATE)[0]

# the modules that people use; the others are how it is made
_MODULES = {
    "accelerator", "amp", "ao", "array_api", "audio", "autograd", "backends", "compiler", "cpu", "cuda", "distributed",
    "distributions", "export", "fft", "func", "futures", "fx", "hub", "jit", "library", "linalg", "masked", "metrics",
    "mps", "mtia", "multiprocessing", "nested", "nn", "onnx", "optim", "overrides", "profiler", "quantization",
    "random", "return_types", "serialization", "signal", "sparse", "special", "storage", "testing", "text", "types",
    "utils", "version", "vision", "xpu",
}  # fmt: skip

__version__ = "0.1.0"
float, double, half, long, int, short = float32, float64, float16, int64, int32, int16
cfloat, cdouble, chalf = complex64, complex128, complex32

_shadowing.tell_of_lab()
globals().update(_publish.namespaces[""])
_inner = {_name for _name, _value in globals().items() if type(_value) is type(_shadowing)} - _MODULES
__all__ = sorted(
    _n for _n in {*globals(), *_LATE} - _inner - {"annotations", "TYPE_CHECKING"} if not _n.startswith("_")
)


def __dir__() -> list[str]:
    return [*__all__, *(name for name in globals() if name.startswith("__"))]
