"""`import core` is quick: NumPy and ml_dtypes only, and the parts that not every program uses come when asked for."""

from __future__ import annotations

import json
import pickle
import re
import subprocess
import sys
from typing import Any

import pytest

import core
from core.base.lazy_import import lazy_attributes

LATE = ["core.audio", "core.autograd.functional", "core.backends.cuda.attention", "core.backends.cuda.indexing",
        "core.distributions", "core.func", "core.library", "core.metrics", "core.nn.modules.rnn",
        "core.nn.modules.transformer", "core.nn.utils", "core.optim", "core.text", "core.utils", "core.vision",
        "dataclasses", "difflib", "fractions"]  # fmt: skip


def fresh(code: str) -> Any:
    """What a new interpreter prints, as JSON."""
    code = f"import core, json, sys\n{code}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    return json.loads(done.stdout)


def test_what_import_core_loads() -> None:
    before = subprocess.run([sys.executable, "-c", "import sys, json; print(json.dumps(list(sys.modules)))"],
                            capture_output=True, text=True, check=True, timeout=60)  # fmt: skip
    loaded = set(fresh("print(json.dumps(list(sys.modules)))"))
    assert not [m for m in LATE if m in loaded]
    strange = {m.partition(".")[0] for m in loaded - set(json.loads(before.stdout))} - set(sys.stdlib_module_names)
    assert {m for m in strange if not m.startswith("_")} == {"core", "numpy", "ml_dtypes"}


@pytest.mark.parametrize("code", [
    "n = core.utils.data.DataLoader",
    "n = core.utils.checkpoint.checkpoint",
    "from core import distributions; n = distributions.Normal",
    "n = core.distributions.kl.kl_divergence",
    "import core.optim; n = core.optim.lr_scheduler.StepLR",
    "import core.optim as optim; n = optim.AdamW",
    "from core.optim import AdamW as n",
    "n = core.metrics.F1",
    "n = core.amp.GradScaler",
    "from core.amp import GradScaler as n",
    "n = core.vision.transforms.Normalize",
    "n = core.text.Vocab",
    "n = core.audio.AudioFolder",
    "n = core.vmap",
    "n = core.autograd.functional.jacobian",
    "n = core.nn.LSTM",
    "from core.nn import Transformer as n",
    "from core.nn import *; n = MaxPool2d",
    "n = core.nn.modules.rarer.Mish",
    "n = core.nn.utils.parametrize.register_parametrization",
    "from core import *; n = optim.SGD",
])  # fmt: skip
def test_each_way_to_ask_works_in_a_fresh_interpreter(code: str) -> None:
    name = code.split("import ")[-1].split(" as")[0] if code.endswith(" as n") else re.split("[. ]", code)[-1]
    assert fresh(f"{code}\nprint(json.dumps(n.__name__))") == name


def test_what_comes_late_is_listed_before() -> None:
    listed = fresh("print(json.dumps([dir(core), dir(core.nn), dir(core.nn.modules), dir(core.autograd)]))")
    for module, names in zip([core, core.nn, core.nn.modules, core.autograd], listed, strict=True):
        assert set(module.__all__) <= set(names)


def test_names_that_are_not_there_and_those_that_are() -> None:
    with pytest.raises(AttributeError, match="module 'core' has no attribute 'nothing'"):
        core.nothing  # noqa: B018
    assert not hasattr(core, "nothing")
    assert {"optim", "utils", "distributions", "Tensor", "zeros"} <= set(dir(core))
    assert {"optim", "utils", "distributions", "Tensor", "zeros"} <= set(core.__all__)
    assert {"__version__", "annotations"}.isdisjoint(core.__all__)
    assert fresh("print(json.dumps(sorted(set(core.__all__) - set(dir(core)))))") == []


def test_what_was_asked_for_once_is_an_ordinary_name() -> None:
    assert fresh("m = core.metrics; print(json.dumps([vars(core)['metrics'] is m, sys.modules['core.metrics'] is m]))"
                 ) == [True, True]  # fmt: skip
    find, names = lazy_attributes("core.base", {"lazy_attributes": "lazy_import"})
    with pytest.raises(AttributeError, match=r"module 'core\.base' has no attribute 'other'"):
        find("other")
    assert "lazy_attributes" in names()


def test_pickles_name_classes_by_where_they_stand() -> None:
    data = pickle.dumps([core.distributions.Normal, core.optim.AdamW, core.utils.data.DataLoader, core.amp.GradScaler])
    assert fresh(f"import pickle; print(json.dumps([c.__name__ for c in pickle.loads({data!r})]))") == [
        "Normal", "AdamW", "DataLoader", "GradScaler"
    ]  # fmt: skip
