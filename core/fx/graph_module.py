"""A module whose forward is printed from a graph."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..base.errors import text
from ..nn.modules.module import Module
from ..nn.parameter import Parameter
from ..tensors.tensor import Tensor
from .graph import Graph
from .printed import PythonCode, compiled, resolve

__all__ = ["GraphModule"]


def put_attribute(root: Module, path: str, value: Any) -> None:
    """Set an attribute of an attribute, with empty modules between where there are none."""
    *above, name = path.split(".")
    for step in above:
        if not hasattr(root, step):
            setattr(root, step, Module())
        root = getattr(root, step)
    if isinstance(value, Tensor) and not isinstance(value, Parameter):
        root.register_buffer(name, value)
    else:
        setattr(root, name, value)


class GraphModule(Module):
    """A module whose forward is printed from a graph and compiled, with what the graph names of a module or a dict.

    root : the module, or a dict from paths to modules and tensors. graph : is used as it is; when it was changed,
    `recompile` prints it anew. `code` is the text.

    *Raises*: RuntimeError where the graph names what a dict has not.

    >>> import core
    >>> traced = core.fx.symbolic_trace(lambda x: core.relu(x) + 1)
    >>> print(traced.code.strip())
    def forward(self, x):
        relu = torch.relu(x);  x = None
        add = relu + 1;  relu = None
        return add
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """Make an object of a class of its own, since its forward is its own."""
        base = next(c for c in cls.__mro__ if not c.__dict__.get("_of_one", False))
        own = type(base.__name__, (base,), {"_of_one": True, "__module__": base.__module__,
                                            "__qualname__": base.__qualname__})  # fmt: skip
        return super().__new__(own)

    def __init__(self, root: Module | Mapping[str, Any], graph: Graph, class_name: str = "GraphModule") -> None:
        super().__init__()
        if type(self).__mro__[1] is GraphModule:
            type(self).__name__ = type(self).__qualname__ = class_name
        self.meta: dict[str, Any] = {}
        if isinstance(root, Module):
            self.training = getattr(root, "training", True)
            self.meta.update(getattr(root, "meta", None) or {})
        self._take(root, graph)
        self.graph = graph

    def _take(self, root: Any, graph: Graph) -> None:
        """Take what a graph names."""
        targets = dict.fromkeys(n.target for n in graph.nodes if n.op in ("get_attr", "call_module"))
        for target in sorted(targets, key=lambda t: t.count(".")):  # a module before what is within it
            if isinstance(root, Module):
                put_attribute(self, target, resolve(root, target))
            elif target in root:
                put_attribute(self, target, root[target])
            else:
                raise RuntimeError(text(f"the graph references target {target} but it was not provided in root",
                                        op="fx.GraphModule", came=f"a dict of {list(root)}"))  # fmt: skip

    @property
    def graph(self) -> Graph:
        """The graph; setting it prints the code anew."""
        return self.__dict__["_graph"]  # type: ignore[no-any-return]

    @graph.setter
    def graph(self, g: Graph) -> None:
        if not isinstance(g, Graph):
            raise AssertionError(f"Expected a Graph instance, but got {type(g)}")
        self.__dict__["_graph"] = g
        g.owning_module = self
        self.recompile()

    def recompile(self) -> PythonCode:
        """Print the code of the graph anew, and run that from now on; return it."""
        made = self.graph.python_code("self")
        type(self).forward = compiled(made)  # type: ignore[method-assign]
        self.__dict__["_code"] = made.src
        return made

    @property
    def code(self) -> str:
        """The text of forward."""
        return self.__dict__["_code"]  # type: ignore[no-any-return]

    def print_readable(self, print_output: bool = True, **options: Any) -> str:
        """Print the class as text, and return it."""
        shown = f"class {self._get_name()}(torch.nn.Module):" + self.code.replace("\n", "\n    ").rstrip()
        shown = shown.replace("\n    \n    \n", "\n", 1)
        if print_output:
            print(shown)
        return shown

    # -- modules within ------------------------------------------------------------------------------------------------

    def add_submodule(self, target: str, m: Module) -> bool:
        """Put a module at a path; return False, and do nothing, where the path leads through what is no module."""
        *above, name = target.split(".")
        at: Any = self
        for step in above:
            if not hasattr(at, step):
                setattr(at, step, Module())
            at = getattr(at, step)
            if not isinstance(at, Module):
                return False
        at.add_module(name, m)
        return True

    def delete_submodule(self, target: str) -> bool:
        """Take the module at a path away; return whether there was one."""
        above, _, name = target.rpartition(".")
        try:
            at = resolve(self, above)
            if not isinstance(getattr(at, name), Module):
                return False
        except AttributeError:
            return False
        delattr(at, name)
        return True

    def delete_all_unused_submodules(self) -> None:
        """Take away the modules that the graph neither calls nor reads from."""
        used: set[str] = set()
        for node in self.graph.nodes:
            if node.op in ("call_module", "get_attr"):
                steps = node.target.split(".")
                used.update(".".join(steps[: k + 1]) for k in range(len(steps)))
                if node.op == "call_module":
                    used.update(f"{node.target}.{n}" for n, _ in self.get_submodule(node.target).named_modules() if n)
        for name in [n for n, _ in self.named_modules() if n and n not in used]:
            self.delete_submodule(name)

    # -- copies and files ----------------------------------------------------------------------------------------------

    def _kind(self) -> Any:
        return next(c for c in type(self).__mro__ if not c.__dict__.get("_of_one", False))

    def _without_graph(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k not in ("_graph", "_code")}

    def __reduce__(self) -> Any:
        return _remade, (self._kind(), type(self).__name__, self._without_graph(), self.graph)

    __reduce_ex__ = lambda self, protocol: self.__reduce__()

    def __deepcopy__(self, memo: dict[int, Any]) -> GraphModule:
        made = memo[id(self)] = self._kind().__new__(self._kind())
        return _filled(made, type(self).__name__, copy.deepcopy(self._without_graph(), memo),
                       copy.deepcopy(self.graph, memo))  # fmt: skip

    def __copy__(self) -> GraphModule:
        made = GraphModule(self, self.graph, type(self).__name__)
        made.meta.update(self.meta)
        return made

    def to_folder(self, folder: str | Path, module_name: str = "FxModule") -> None:
        """Write the module as a package: its code, and its modules and tensors in a file beside it.

        *Raises*: RuntimeError where the code names what the text alone does not.
        """
        code = self.graph.python_code("self")
        others = sorted(set(code.globals) - {"torch", "inf", "nan", "device", "NoneType", "operator", "math"})
        if others:
            raise RuntimeError(text("the code names objects that a file has not", op="fx.GraphModule.to_folder",
                                    came=", ".join(others), remedy="pickle the module"))  # fmt: skip
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "state.pkl").write_bytes(pickle.dumps(self._without_graph()))
        head = ("import math\nimport operator\nimport pickle\nfrom math import inf, nan\nfrom pathlib import Path\n\n"
                "import core as torch\nfrom core import device, nn\n\nNoneType = type(None)\n")  # fmt: skip
        body = (f"\n\nclass {module_name}(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
                "        state = (Path(__file__).parent / 'state.pkl').read_bytes()\n"
                "        self.__dict__.update(pickle.loads(state))\n\n    ")  # fmt: skip
        forward = code.src.strip().replace("\n", "\n    ")
        (folder / "module.py").write_text(head + body + forward + "\n")
        (folder / "__init__.py").write_text("from .module import *\n")


def _filled(made: GraphModule, name: str, state: dict[str, Any], graph: Graph) -> GraphModule:
    type(made).__name__ = type(made).__qualname__ = name
    made.__dict__.update(state)
    made.graph = graph
    return made


def _remade(kind: type[GraphModule], name: str, state: dict[str, Any], graph: Graph) -> GraphModule:
    """Make a module of what was written of it."""
    return _filled(kind.__new__(kind), name, state, graph)
