"""``torch`` as another name for `core`, so that packages written for PyTorch run on it: `as_torch`, and ``python -m
core run``.

``import torch`` and ``import torch.nn.functional`` give core's modules from then on. Where PyTorch keeps classes in
files that core divides otherwise (``torch.nn.modules.instancenorm``), that path has all names of the package that holds
them. What core lacks is a ModuleNotFoundError or an AttributeError, which packages that can do without it catch.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.metadata
import importlib.util
import io
import os
import runpy
import sys
import types
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

from .base.absent import AbsentModule
from .base.errors import text
from .rng import generator
from .version import MEANING, TorchVersion

__all__ = ["as_torch"]

NAME = "torch"
SPAWNED = "CORE_RUN_PROGRAM"  # the variable that has the path of a program
FUNCTORCH = "functorch"  # a package beside it, whose names are those of core.functorch
OURS = __name__.partition(".")[0]
# PyTorch's files whose names core has in the package above them
FILES = {
    "nn.modules": ("channelshuffle", "distance", "flatten", "fold", "pixelshuffle"),
    "nn.utils": ("memory_format", "spectral_norm", "weight_norm"),
    "optim": ("adadelta", "adamax", "adamw", "asgd", "radam", "rprop"),
    "autograd": ("anomaly_mode", "grad_mode"),
    "nn.parallel": ("comm", "data_parallel", "parallel_apply", "replicate", "scatter_gather"),
    "_C": ("_distributed_c10d", "_nn", "_onnx"),
    "_dynamo": ("decorators", "eval_frame", "external_utils", "utils"),
    "_subclasses": ("fake_tensor", "functional_tensor", "meta_utils"),
    "distributed": ("distributed_c10d",),
    "distributed.algorithms": ("_checkpoint", "model_averaging"),
    "distributed.checkpoint": (
        "default_planner",
        "filesystem",
        "format_utils",
        "metadata",
        "optimizer",
        "planner",
        "stateful",
        "state_dict",
        "state_dict_loader",
        "state_dict_saver",
    ),
    "distributed.fsdp": ("api", "fully_sharded_data_parallel", "sharded_grad_scaler", "wrap"),
    "distributed.nn": ("functional",),
    "distributed.pipelining": ("microbatch", "schedules", "stage"),
    "distributed.tensor": ("api", "experimental", "placement_types"),
    "fx.experimental": ("proxy_tensor", "symbolic_shapes"),
    "jit": ("annotations", "frontend"),
    "multiprocessing": ("spawn",),
    "onnx": ("utils",),
    "profiler": ("profiler",),
}
# parts of PyTorch that packages import whether or not they use them: what core lacks of these is there, and refuses
REFUSING = ("_dynamo", "_export", "_functorch", "_guards", "_higher_order_ops", "_inductor", "_logging",
            "_prims_common", "ao", "distributed", "export", "fx", "onnx", "quantization", "testing")  # fmt: skip
# of modules that core has, the parts that it has not
REFUSED = {
    "onnx": ("_internal", "errors", "operators", "ops", "symbolic_registry", "verification",
             *(f"symbolic_opset{n}" for n in range(7, 21))),
    "export": ("_trace", "decomp_utils", "passes", "unflatten"),
    "testing": ("_internal",),
    "utils": ("_sympy", "bottleneck", "mobile_optimizer"),
}  # fmt: skip
# PyTorch's modules have all their names from the beginning, and packages look through them
WHOLE = ("distributions", "nn", "optim")
PLACES = {f"{package}.{file}": package for package, files in FILES.items() for file in files} | {
    "functional": "",
    "_tensor": "",
    "_custom_ops": "library",
    "_library": "library",
    "_ops": "ops.namespaces",
    "utils.data._utils": "utils.data",
    "utils.data.graph_settings": "utils.data.datapipes",
    "utils.data.datapipes.iter": "utils.data.datapipes",
    "utils.data.datapipes.iter.combinatorics": "utils.data.datapipes",
    "utils.data.datapipes.utils": "utils.data.datapipes",
    "utils.data.datapipes.utils.common": "utils.data.datapipes",
    "utils.data.datapipes.datapipe": "utils.data.datapipes",
    "utils.data._utils.collate": "utils.data.collate",
    "utils.data._utils.pin_memory": "utils.data.pinning",
    "utils.data._utils.fetch": "utils.data.fetching",
    "utils.data._utils.worker": "utils.data.worker",
    "cuda.amp.common": "cuda.amp",
    "cuda.amp.grad_scaler": "cuda.amp",
    "cuda.comm": "nn.parallel",
    "nn.modules.instancenorm": "nn.modules.batchnorm",
    "cuda.random": "cuda",
    "cuda.memory": "cuda.memory",
    "distributed.elastic": "distributed.elastic",
    "distributed.launch": "distributed.run",
    "distributed.launcher.api": "distributed.launcher",
    "distributed.elastic.multiprocessing": "distributed.elastic",
    "distributed.elastic.multiprocessing.errors": "distributed.elastic",
    "xpu.random": "xpu",
    "autograd.profiler_util": "autograd.profiler",
    "nn.quantized": "nn.quantized",
    "nn.quantized.dynamic": "ao.nn.quantized.dynamic",
    "nn.intrinsic": "ao.nn.intrinsic",
    "nn.intrinsic.qat": "ao.nn.intrinsic.qat",
    "nn.qat": "ao.nn.qat",
    "ao.quantization.stubs": "nn.quantized",
    "ao.quantization.quantize": "ao.quantization",
    "quantization.observer": "ao.quantization.observer",
    "quantization.fake_quantize": "ao.quantization.fake_quantize",
    "quantization.qconfig": "ao.quantization.qconfig",
    "quantization": "ao.quantization",
    "nn.utils.init": "nn.init",
    "nested._internal": "nested",
    "nested._internal.nested_tensor": "nested",
    "distributed._tensor": "distributed.tensor",
    "distributed._tensor.api": "distributed.tensor",
    "distributed._tensor.device_mesh": "distributed.device_mesh",
    "distributed._tensor.placement_types": "distributed.tensor",
    "distributed.algorithms._checkpoint.checkpoint_wrapper": "distributed.algorithms.checkpoint_wrapper",
    "distributed.algorithms.model_averaging.averagers": "distributed.averagers",
    "distributed.constants": "distributed",
    "distributed.tensor.parallel.style": "distributed.tensor",
    "distributed.fsdp._fully_shard": "distributed.fsdp",
    "distributed._composable": "distributed.fsdp",
    "distributed._composable.fsdp": "distributed.fsdp",
}


class Torch(types.ModuleType):
    """The module that ``import torch`` gives: core's names, read and set, and the version whose meaning they have."""

    def __init__(self) -> None:
        ours = sys.modules[OURS]
        super().__init__(NAME, ours.__doc__)
        self.__dict__.update(__version__=TorchVersion(MEANING), __path__=[], __file__=ours.__file__, __package__=NAME,
                             __stands_for__=OURS, torch=self, _known=set())  # fmt: skip

    def __getattr__(self, name: str) -> Any:
        try:
            found = getattr(sys.modules[OURS], name)
        except AttributeError:
            if name in PLACES or name in REFUSING:
                return importlib.import_module(f"{NAME}.{name}")
            raise AttributeError(f"module {NAME!r} has no attribute {name!r}", name=name, obj=self) from None
        if isinstance(found, types.ModuleType) and name not in self.__dict__["_known"]:
            self.__dict__["_known"].add(name)
            _complete(name, found)
        return found

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("__"):
            super().__setattr__(name, value)
        else:  # a function that a package puts in another's place is asked for by both names
            setattr(sys.modules[OURS], name, value)

    def __delattr__(self, name: str) -> None:
        delattr(sys.modules[OURS], name)

    def __dir__(self) -> list[str]:
        return dir(sys.modules[OURS])


def _complete(name: str, module: types.ModuleType) -> None:
    """Give a module of core's the names that PyTorch's has from the beginning: late ones, and files below it."""
    if name in WHOLE:
        for late in getattr(module, "_LATE", {}):
            getattr(module, late)
    for place, package in PLACES.items():
        parent, _, file = place.rpartition(".")
        holder = sys.modules.get(f"{OURS}.{parent}")
        if parent.partition(".")[0] == name and holder is not None and not hasattr(holder, file):
            setattr(holder, file, File(f"{NAME}.{place}", f"{OURS}.{package}" if package else OURS))
    for file in REFUSED.get(name, ()):
        if not hasattr(module, file):
            setattr(module, file, AbsentModule(f"{NAME}.{name}.{file}"))


class File(types.ModuleType):
    """A path of PyTorch's without a file of core's: it has the names of the package that stands for it."""

    def __init__(self, name: str, package: str) -> None:
        super().__init__(name, f"The names of {package}.")
        self.__dict__["_package"] = package

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name != "__all__":
            raise AttributeError(name)
        return getattr(importlib.import_module(self.__dict__["_package"]), name)


class Keeping(types.ModuleType):
    """A package of core's with a function by the name of one of PyTorch's files: importing the file leaves it alone.

    The import system binds each module in its package; PyTorch binds the function after it.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        if not (isinstance(value, File) and name in self.__dict__):
            super().__setattr__(name, value)


class Distribution(importlib.metadata.Distribution):
    """What ``importlib.metadata.version("torch")`` reads: some packages ask it whether PyTorch is there."""

    def read_text(self, filename: str) -> str | None:
        """Return the text of a file of the distribution's metadata; None for those that it lacks."""
        return f"Metadata-Version: 2.1\nName: {NAME}\nVersion: {MEANING}\n" if filename == "METADATA" else None

    def locate_file(self, path: Any) -> Any:
        """Return where a file would lie: beside core."""
        return Path(__file__).parent / path


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds ``torch`` and what stands below it."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        """Return where a module is; None where core has none by that name."""
        if name.partition(".")[0] == FUNCTORCH:
            return importlib.machinery.ModuleSpec(name, self) if name == FUNCTORCH else _missing(name)
        if name != NAME and not name.startswith(f"{NAME}."):
            return None
        if name != NAME and _own(name) is None and not _stands_in(name):
            return _missing(name)
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        """Return core's module, or one that has its names."""
        if spec.name == NAME:
            return Torch()
        if spec.name == FUNCTORCH:
            return File(FUNCTORCH, f"{OURS}.functorch")
        own = _own(spec.name)
        if own is not None:
            module = importlib.import_module(own)
            self._spec = module.__spec__
            _complete(spec.name.split(".")[1], sys.modules[f"{OURS}.{spec.name.split('.')[1]}"])
            return module
        package = PLACES.get(spec.name.removeprefix(f"{NAME}."))
        if package is None:
            return AbsentModule(spec.name)
        above, _, name = spec.name.rpartition(".")
        around = sys.modules[above]
        if name in vars(around) and type(around) is types.ModuleType:
            around.__class__ = Keeping
        return File(spec.name, f"{OURS}.{package}" if package else OURS)

    def exec_module(self, module: types.ModuleType) -> None:
        """Leave core's module as it was: the import system writes its own spec into it."""
        if not isinstance(module, Torch | File | AbsentModule):
            module.__spec__ = self._spec

    def find_distributions(self, context: Any = None) -> Iterator[Distribution]:
        """Yield the distribution by that name."""
        if context is None or context.name == NAME:
            yield Distribution()


def _missing(name: str) -> NoReturn:
    """Raise ModuleNotFoundError for a module of PyTorch's that core has not."""
    raise ModuleNotFoundError(
        text(f"No module named {name!r}", op="as_torch", came=f"import {name}",
             needed="a module of PyTorch's that core has",
             remedy="report it, or catch it where the program can do without"), name=name)  # fmt: skip


def _stands_in(name: str) -> bool:
    """Return whether a module of PyTorch's that core has not is there by its name."""
    place = name.removeprefix(f"{NAME}.")
    top, _, rest = place.partition(".")
    return place in PLACES or top in REFUSING or rest.partition(".")[0] in REFUSED.get(top, ())


def _own(name: str) -> str | None:
    """Return the name of core's module for one of PyTorch's; None where there is none."""
    own = OURS + name.removeprefix(NAME)
    if own in sys.modules:
        return own
    try:
        return own if importlib.util.find_spec(own) is not None else None
    except ModuleNotFoundError:  # a parent of it is no package
        return None


def _set_aside() -> dict[str, types.ModuleType]:
    """Take all modules by PyTorch's names out of Python's table, and return them."""
    return {name: sys.modules.pop(name) for name in list(sys.modules) if name.partition(".")[0] in (NAME, FUNCTORCH)}


class as_torch:
    """Let ``import torch`` give core from now on, or until the end of a ``with`` block.

    seeds : "torch", PyTorch's own random numbers (the default), or "philox", those that are the same on every device.

    A PyTorch that is installed is left alone: what was imported of it goes on, and after the block it is there again.
    Packages that are imported meanwhile are core's for good; each is to be imported anew to have it on PyTorch.

    *Raises*: ValueError for seeds of another name.

    >>> import core
    >>> with core.as_torch():
    ...     import torch
    ...     from torch.nn.modules.instancenorm import InstanceNorm1d
    >>> torch.ones(2), torch.nn is core.nn, InstanceNorm1d is core.nn.InstanceNorm1d
    (tensor([1., 1.]), True, True)
    """

    def __init__(self, *, seeds: str = "torch") -> None:
        self._kind = generator.set_default_kind(seeds)
        self._others, self._finder = _set_aside(), Finder()
        sys.meta_path.insert(0, self._finder)

    def __enter__(self) -> as_torch:
        return self

    def __exit__(self, *raised: object) -> None:
        sys.meta_path.remove(self._finder)
        _set_aside()
        sys.modules.update(self._others)
        generator.set_default_kind(self._kind)


def run(argv: Sequence[str]) -> None:
    """Run a program as ``python`` would, with core as its PyTorch: ``script.py args`` or ``-m package args``.

    *Raises*: what the program raises, and SystemExit where `argv` names none.
    """
    module = argv[0] == "-m" if argv else False
    if len(argv) < 1 + module:
        raise SystemExit("python -m core run: needs a program, as in `python -m core run train.py` or `run -m package`")
    as_torch()
    sys.argv = list(argv[module:])
    if module:
        sys.path[0] = ""
        runpy.run_module(argv[1], run_name="__main__", alter_sys=True)
        return
    sys.path[0] = str(Path(argv[0]).resolve().parent)
    if not Path(argv[0]).is_file():
        runpy.run_path(argv[0], run_name="__main__")
        return
    # a process that the program starts by "spawn" runs the module of this name first, as it would the program's file
    os.environ[SPAWNED] = argv[0]
    program = types.ModuleType("__main__")
    program.__file__, program.__spec__ = argv[0], importlib.machinery.ModuleSpec(f"{OURS}.spawned", None)
    sys.modules["__main__"] = program
    again(program.__dict__, argv[0])


def again(names: dict[str, Any], path: str) -> None:
    """Run a program's file in a module's names."""
    with io.open_code(path) as file:
        code = compile(file.read(), path, "exec", dont_inherit=True)
    exec(code, names)
