"""Models in folders and files: weights or a program, and a manifest by which they are verified before they are used.

`save` writes `manifest.json` (name, version, the class or the program, of each file its size and SHA-256, rules for the
names of parameters) beside `weights.safetensors` or `program.gl`: to a folder, or all in one file. `load` reads it;
nothing in it is code. PyTorch's `hubconf.py`, which is, is run for ``source="local"`` alone. Nothing here uses the
network.

The hashes tell of files that were damaged, cut off or mixed up. They do not tell who wrote the manifest.
"""

from __future__ import annotations

import builtins
import difflib
import hashlib
import importlib
import importlib.util
import inspect
import io
import json
import os
import re
import sys
import tempfile
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from . import serialization
from .base.errors import LoadError, text
from .base.source import warn
from .export.program import Program
from .export.restored import load as load_program
from .hub_urls import (
    HASH_REGEX,
    _get_torch_home,
    download_url_to_file,
    get_dir,
    load_state_dict_from_url,
    set_dir,
    urlparse,
)
from .nn.modules.module import Module
from .serialization.atomic import replacing
from .serialization.source import Source, broken, short
from .serialization.zipped import Archive, Writer
from .tensors.tensor import Tensor

__all__ = ["HASH_REGEX", "_get_torch_home", "download_url_to_file", "get_dir", "help", "list", "load",
           "load_state_dict_from_url", "mapped", "save", "set_dir", "urlparse"]  # fmt: skip

FORMAT, VERSION = "gradlab model", 1
MANIFEST, WEIGHTS, PROGRAM, HUBCONF = "manifest.json", "weights.safetensors", "program.gl", "hubconf.py"
_MAX_MANIFEST = 1_000_000
_MAX_RULES = 1_000

Rules = Mapping[str, str] | Sequence[Sequence[str]]


# -- saving ------------------------------------------------------------------------------------------------------------


def save(path: Any, model: Module | Program, *, name: str | None = None, version: str = "1", description: str = "",
         keys: Rules = ()) -> None:  # fmt: skip
    """Write a module's state or a program with a manifest: to a folder, or to one file where the path has a suffix.

    name, version, description : what people read; the name is that of the class or the program where none is given.
    keys : rules by which `load` gives the parameters their names in the model, as `mapped` takes them: for weights
        whose names are those of another source.

    Raises
    ------
    TypeError
        For what is neither a module nor a program.

    >>> import core, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     core.hub.save(folder, core.nn.Linear(2, 1), version="3")
    ...     layer = core.hub.load(folder, core.nn.Linear, in_features=2, out_features=1)
    >>> layer
    Linear(in_features=2, out_features=1, bias=True)
    """
    manifest: dict[str, Any] = {"format": FORMAT, "format_version": VERSION, "name": name, "version": str(version)}
    if isinstance(model, Program):
        files = {PROGRAM: _program_bytes(model)}
        manifest |= {"name": name or model.name, "program": PROGRAM}
        if keys:
            raise ValueError(text("a program has no names to be mapped", op="hub.save", remedy="leave `keys` out"))
    elif isinstance(model, Module):
        buffer = io.BytesIO()
        serialization.save(dict(model.state_dict()), buffer, format="safetensors")
        files = {WEIGHTS: buffer.getvalue()}
        kind = type(model)
        manifest |= {"name": name or kind.__name__, "class": f"{kind.__module__}:{kind.__qualname__}",
                     "weights": WEIGHTS, "keys": [[r.old, r.new] for r in _rules(keys)]}  # fmt: skip
    else:
        raise TypeError(text("hub.save() takes a module or a program", op="hub.save", came=type(model).__name__,
                             remedy="core.save for tensors and dicts of them"))  # fmt: skip
    manifest["description"] = str(description)
    manifest["files"] = {n: {"size": len(b), "sha256": hashlib.sha256(b).hexdigest()} for n, b in files.items()}
    files[MANIFEST] = json.dumps(manifest, indent=1).encode()  # the last: a folder without one is not finished
    path = os.fspath(path)
    if os.path.splitext(path)[1] and not os.path.isdir(path):
        with replacing(path) as file:
            archive = Writer(file)
            for n, data in files.items():
                archive.record(n, data)
            archive.close()
        return
    os.makedirs(path, exist_ok=True)
    for n, data in files.items():
        with replacing(os.path.join(path, n)) as file:
            file.write(data)


def _program_bytes(program: Program) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, PROGRAM)
        program.save(path)
        with open(path, "rb") as file:
            return file.read()


# -- names of parameters -----------------------------------------------------------------------------------------------


class _Rule(NamedTuple):
    old: str
    new: str
    pattern: re.Pattern[str]


def _rules(keys: Any) -> builtins.list[_Rule]:
    """Return rules that are checked: a pattern has so few wildcards that matching ends soon."""
    pairs = builtins.list(keys.items()) if isinstance(keys, Mapping) else builtins.list(keys)
    if len(pairs) > _MAX_RULES:
        raise ValueError(text(f"{len(pairs):,} rules for names", op="hub", needed=f"at most {_MAX_RULES:,}"))
    found = []
    for pair in pairs:
        if isinstance(pair, str) or len(pair) != 2 or not all(isinstance(s, str) and len(s) < 500 for s in pair):
            raise ValueError(
                text(f"a rule for names is {pair!r:.80}", op="hub", needed="two texts, the old and the new")
            )
        old, new = pair
        stars = re.findall(r"\*+", old)
        if stars.count("**") > 1 or len(stars) > 8 or any(len(s) > 2 for s in stars) or new.count("*") > old.count("*"):
            raise ValueError(text(f"the rule {old!r} -> {new!r} has other wildcards than it may", op="hub",
                                  needed="'*' for one part, '**' once for any number, no more in the new"))  # fmt: skip
        if re.findall(r"\*+", new) != stars[: len(re.findall(r"\*+", new))]:
            raise ValueError(text(f"the rule {old!r} -> {new!r} has its wildcards in another order", op="hub"))
        parts = [re.escape(s) if i % 2 == 0 else s for i, s in enumerate(re.split(r"(\*+)", old))]
        said = "".join({"*": r"([^.]+)", "**": r"(.*)"}.get(s, s) for s in parts)
        found.append(_Rule(old, new, re.compile(rf"{said}(?=\.|$)" if old else "")))
    return found


def mapped(state: Mapping[str, Any], keys: Rules) -> dict[str, Any]:
    """Return a state dict with other names: the first rule whose old name begins a name gives it the new beginning.

    Names are changed by whole parts between dots; ``*`` stands for one part and ``**`` for any number of them.

    *Raises*: ValueError where two parameters would have one name.

    >>> mapped({"module.a.gamma": 1, "module.b.0.w": 2}, {"module.**.gamma": "**.weight", "module.b.*": "blocks.*"})
    {'a.weight': 1, 'blocks.0.w': 2}
    >>> mapped({"module.fc.bias": 0}, {"module": ""})
    {'fc.bias': 0}
    """
    rules = _rules(keys)
    found: dict[str, Any] = {}
    origin: dict[str, str] = {}
    for key, value in state.items():
        new = _renamed(key, rules)
        if new in found:
            raise ValueError(text(f"two parameters would be named {new!r}", op="hub",
                                  came=f"{origin[new]!r} and {key!r}",
                                  remedy="a rule that tells them apart, before the others"))  # fmt: skip
        found[new], origin[new] = value, key
    return found


def _renamed(key: str, rules: Sequence[_Rule]) -> str:
    for rule in rules:
        match = rule.pattern.match(key)
        if match is None:
            continue
        first, *others = re.split(r"\*+", rule.new)
        start = first + "".join(part + text_ for part, text_ in zip(match.groups(), others, strict=False))
        return ".".join(part for part in (start, key[match.end() :].removeprefix(".")) if part)
    return key


def _filled(model: Module, state: dict[str, Any], strict: bool, where: str) -> None:
    """Put a state into a model. *Raises*: RuntimeError with what is missing, unexpected or of another shape."""
    own = model.state_dict()
    missing = [k for k in own if k not in state]
    unexpected = [k for k in state if k not in own]
    shapes = [f"{k}: {tuple(state[k].shape)} in the file, {tuple(own[k].shape)} in the model" for k in own
              if k in state and tuple(state[k].shape) != tuple(own[k].shape)]  # fmt: skip
    said = [f"{label}: {', '.join(names[:20])}{f' and {len(names) - 20} more' if len(names) > 20 else ''}"
            for label, names in (("missing", missing), ("unexpected", unexpected), ("of another shape", shapes))
            if names]  # fmt: skip
    if said and (strict or shapes):
        raise RuntimeError(text(f"the weights do not fit {type(model).__name__}; " + "; ".join(said), op="hub.load",
                                came=where, remedy=_hint(missing, unexpected)))  # fmt: skip
    if said:
        warn(f"{where}: {'; '.join(said)}")
    model.load_state_dict({k: v for k, v in state.items() if k in own}, strict=False)


def _hint(missing: Sequence[str], unexpected: Sequence[str]) -> str:
    """Return the remedy, with the likeliest rule for names."""
    if not missing or not unexpected:
        return "the class and the arguments with which the weights were made, or strict=False"
    near = difflib.get_close_matches(unexpected[0], missing, 1, 0.3)
    old, new = unexpected[0].split("."), (near or [missing[0]])[0].split(".")
    while len(old) > 1 and len(new) > 1 and old[-1] == new[-1]:
        old.pop()
        new.pop()
    if len(old) > 1 and old[1:] == new:
        return f"keys={{{old[0]!r}: ''}} if that is what changed"
    return f"keys={{{'.'.join(old)!r}: {'.'.join(new)!r}}} if that is what changed"


# -- loading -----------------------------------------------------------------------------------------------------------


def load(path: Any, model: Any = None, *args: Any, source: str | None = None, keys: Rules = (), strict: bool = True,
         **kwargs: Any) -> Any:  # fmt: skip
    """Return the model in a folder or file that `save` wrote, or what an entry of a local `hubconf.py` gives.

    path : a folder with `manifest.json`, one file with all of it, or a folder with `hubconf.py`.
    model : for weights, the module to put them in, or the class or function that makes it of `args` and `kwargs`;
        without it they come as a dict of tensors. The name of a class in a manifest is shown and never imported. For
        `hubconf.py` the name of the entry. A program needs none.
    source : "local" runs the folder's `hubconf.py`, which is the code of whoever wrote it, with all that code can do.
    keys : rules for the names of the parameters as `mapped` takes them, before those of the manifest.
    strict : whether missing and unexpected parameters are errors, or warnings.

    Every file is held to its size and its SHA-256 before anything in it is used.

    Raises
    ------
    LoadError
        For files that are not those that the manifest names, and manifests that are broken.
    RuntimeError
        For weights that do not fit the model, with the names and the likeliest rule; for ``source="github"``.
    """
    if source not in (None, "local", "github"):
        raise ValueError(f'Unknown source: "{source}". Allowed values: "github" | "local".')
    if source == "github" or (source is None and _is_repository(path)):
        raise RuntimeError(_no_network(path, model))
    if source == "local":
        return _entry(path, model)(*args, **kwargs)
    package = _Package(path)
    if package.program is not None:
        if model is not None or args or kwargs:
            raise TypeError(text(f"{package.title} is a program, which takes no model", op="hub.load",
                                 remedy="core.hub.load(path)"))  # fmt: skip
        return load_program(io.BytesIO(package.program))
    state = mapped(mapped(package.state(), keys), package.keys)
    if model is None:
        return state
    if not isinstance(model, Module):
        if not callable(model):
            raise TypeError(text(f"{package.title} has the weights of {package.kind}, which needs its class",
                                 op="hub.load", came=repr(model)[:80], needed="a module, or what makes one",
                                 remedy="core.hub.load(path, Net, ...)"))  # fmt: skip
        model = model(*args, **kwargs)
        if not isinstance(model, Module):
            raise TypeError(text("what was to make the model made none", op="hub.load", came=type(model).__name__,
                                 needed="a core.nn.Module"))  # fmt: skip
    elif args or kwargs:
        raise TypeError(text("a module takes no further arguments", op="hub.load", remedy="give its class"))
    _filled(model, state, strict, package.title)
    return model


def list(path: Any, *, source: str | None = None) -> builtins.list[str]:
    """Return the names of the models in a folder or file; for ``source="local"`` the entries of its `hubconf.py`, which
    is run for that."""
    if source == "github" or (source is None and _is_repository(path)):
        raise RuntimeError(_no_network(path, None))
    if source == "local":
        found = vars(_hubconf(path)).items()
        return [n for n, x in found if callable(x) and not n.startswith("_") and not inspect.ismodule(x)]
    return [str(_Package(path).manifest["name"])]


def help(path: Any, model: str | None = None, *, source: str | None = None) -> str:
    """Return what is said of a model: its manifest's description, or the docstring of an entry of `hubconf.py`."""
    if source == "github" or (source is None and _is_repository(path)):
        raise RuntimeError(_no_network(path, model))
    if source == "local":
        return inspect.getdoc(_entry(path, model)) or ""
    package = _Package(path)
    said = f"{package.title}: " + (f"weights of {package.kind}" if package.program is None else "a program")
    return "\n".join([said, *([package.manifest["description"]] if package.manifest["description"] else [])])


def _is_repository(path: Any) -> bool:
    """Return whether this is no place on the disk and looks like "owner/name"."""
    said = os.fspath(path)
    return not os.path.exists(said) and bool(re.fullmatch(r"[\w.-]+/[\w.-]+(:[\w./-]+)?", str(said)))


def _no_network(path: Any, model: Any) -> str:
    repository, _, branch = str(path).partition(":")
    folder = repository.rpartition("/")[2]
    clone = f"git clone{f' -b {branch}' if branch else ''} https://github.com/{repository}"
    entry = f", {model!r}" if isinstance(model, str) else ""
    return text(f"core.hub does not fetch {path}: it reads folders and files of this machine", op="hub.load",
                remedy=f"{clone}, read its hubconf.py, then "
                f"core.hub.load({folder!r}{entry}, source='local')")  # fmt: skip


class _Package:
    """A manifest and the files that it names, verified."""

    def __init__(self, path: Any) -> None:
        self.path = os.fspath(path)
        read = self._opened()
        self.manifest = self._manifest(read(MANIFEST, _MAX_MANIFEST))
        files = {name: self._verified(name, said, read) for name, said in self.manifest["files"].items()}
        self.program = files.get(PROGRAM)
        self._weights = files.get(WEIGHTS)
        self.title = f"{self.manifest['name']} {self.manifest['version']}"
        self.kind = str(self.manifest.get("class", "a module"))
        try:
            self.keys = [[r.old, r.new] for r in _rules(self.manifest.get("keys", []))]
        except (ValueError, TypeError) as error:
            raise broken(f"{self.path}: {error}") from None

    def _opened(self) -> Callable[[str, int], bytes]:
        """Return what reads a file of the package, of at most so many bytes."""
        if os.path.isdir(self.path):
            if not os.path.exists(os.path.join(self.path, MANIFEST)):
                code = os.path.exists(os.path.join(self.path, HUBCONF))
                remedy = "source='local' runs its hubconf.py; read it first" if code else "core.hub.save writes one"
                raise LoadError(text(f"{self.path} has no {MANIFEST}", op="hub.load", remedy=remedy))

            def from_folder(name: str, most: int) -> bytes:
                try:
                    with open(os.path.join(self.path, name), "rb") as file:
                        data = file.read(most + 1)
                except FileNotFoundError:
                    raise broken(f"{self.path} lacks {name}, which its manifest names") from None
                if len(data) > most:
                    raise broken(f"{name} of {self.path} has more than {most:,} bytes")
                return data

            return from_folder

        def from_file(name: str, most: int) -> bytes:
            with Source(self.path) as source:
                archive = Archive(source)
                if name in archive.records and archive.records[name].size_bytes > most:
                    raise broken(f"{name} of {self.path} has more than {most:,} bytes")
                return archive.read(name)

        return from_file

    def _manifest(self, data: bytes) -> dict[str, Any]:
        try:
            found = json.loads(data.decode())
        except (ValueError, RecursionError) as error:
            raise broken(f"its {MANIFEST} cannot be read ({str(error)[:100]})") from None
        if not isinstance(found, dict) or found.get("format") != FORMAT:
            raise broken(f"its {MANIFEST} is not of the format {FORMAT!r}")
        if found.get("format_version") != VERSION:
            raise LoadError(text(f"the manifest is of version {short(found.get('format_version'))}, and this "
                                 f"core reads {VERSION}", op="hub.load",
                                 remedy="pip install --upgrade gradlab"))  # fmt: skip
        for key in ("name", "version", "description"):
            if not isinstance(found.get(key), str) or len(found[key]) > 100_000:
                raise broken(f"its {MANIFEST} has {short(found.get(key))} for its {key}")
        files = found.get("files")
        if not isinstance(files, dict) or sorted(files) not in ([PROGRAM], [WEIGHTS]):
            raise broken(
                f"its {MANIFEST} names the files {short(files and tuple(files))}, and not {WEIGHTS} or {PROGRAM}"
            )
        return found

    def _verified(self, name: str, said: Any, read: Callable[[str, int], bytes]) -> bytes:
        """Return the bytes of a file, which are those that were hashed: what lies there later is not looked at."""
        size, wanted = (said.get("size"), said.get("sha256")) if isinstance(said, dict) else (None, None)
        if type(size) is not int or size < 0 or not isinstance(wanted, str):
            raise broken(f"its {MANIFEST} does not tell the size and the SHA-256 of {name}")
        data = read(name, size)
        if len(data) != size:
            raise broken(f"{name} has {len(data):,} bytes, and its manifest says {size:,}", "copy the files once more")
        found = hashlib.sha256(data).hexdigest()
        if found != wanted.lower():
            raise broken(f"{name} is not the file that its manifest names: its SHA-256 is {found}, and not "
                         f"{wanted[:64]}", "copy the files once more")  # fmt: skip
        return data

    def state(self) -> dict[str, Any]:
        """Return the weights."""
        found = serialization.load(io.BytesIO(self._weights or b""))
        if not isinstance(found, dict) or not all(
            isinstance(k, str) and isinstance(v, Tensor) for k, v in found.items()
        ):
            raise broken(f"{WEIGHTS} of {self.path} is no dict of tensors")
        return dict(found)


# -- hubconf.py --------------------------------------------------------------------------------------------------------


@contextmanager
def _importable(folder: str) -> Iterator[None]:
    """Let the modules of a folder be imported, as `hubconf.py` is used to."""
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.path.remove(folder)


def _hubconf(path: Any) -> types.ModuleType:
    """Run a folder's `hubconf.py` and return it."""
    folder = os.path.abspath(os.fspath(path))
    file = os.path.join(folder, HUBCONF)
    if not os.path.isfile(file):
        raise FileNotFoundError(text(f"{folder} has no {HUBCONF}", op="hub.load",
                                     remedy=f"without source='local' its {MANIFEST} is read"))  # fmt: skip
    spec = importlib.util.spec_from_file_location("hubconf", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with _importable(folder):
        spec.loader.exec_module(module)
    lacking = [name for name in getattr(module, "dependencies", ()) if importlib.util.find_spec(name) is None]
    if lacking:
        raise RuntimeError(f"Missing dependencies: {', '.join(lacking)}\n  remedy: pip install {' '.join(lacking)}")
    return module


def _entry(path: Any, name: Any) -> Callable[..., Any]:
    """Return an entry of a folder's `hubconf.py`, which is called with the folder importable."""
    if not isinstance(name, str):
        raise ValueError("Invalid input: model should be a string of function name")
    module = _hubconf(path)
    function = getattr(module, name, None)
    if not callable(function) or name.startswith("_"):
        known = ", ".join(n for n, x in vars(module).items() if callable(x) and not n.startswith("_"))
        raise RuntimeError(f"Cannot find callable {name} in hubconf\n  needed: one of {known}")
    folder = os.path.abspath(os.fspath(path))

    def called(*args: Any, **kwargs: Any) -> Any:
        with _importable(folder):
            return function(*args, **kwargs)

    called.__doc__ = function.__doc__
    return called


def __getattr__(name: str) -> Any:
    if name == "tqdm" and importlib.util.find_spec("tqdm") is not None:  # the bar that packages take from there
        return importlib.import_module("tqdm").tqdm
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
