"""Selective checkpoints: a policy says which ops' results are kept, so that the second run takes them as they are.

In the block of the first run the results that the policy keeps are put aside, in order; in that of the second run the
same ops are given them instead of running. Everything else is computed again.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from .. import backends
from ..base.errors import text
from ..base.modes import state as mode
from ..declare import op as declarations
from ..declare.op import Elementwise, Operation
from ..dispatch import elementwise, operands, structured, vmap
from ..events import observe
from ..graph import versions
from ..tensors.tensor import Tensor


class CheckpointPolicy(enum.Enum):
    """What becomes of an op's result under a selective checkpoint; PREFER and MUST are the same here."""

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3
    MUST_CPU_OFFLOAD = 4
    PREFER_CPU_OFFLOAD = 5


_SAVED = (CheckpointPolicy.MUST_SAVE, CheckpointPolicy.PREFER_SAVE, CheckpointPolicy.MUST_CPU_OFFLOAD,
          CheckpointPolicy.PREFER_CPU_OFFLOAD)  # fmt: skip


class SelectiveCheckpointContext:
    """What a policy is told beside the op: whether this is the second run."""

    def __init__(self, *, is_recompute: bool, op_output: Any = None) -> None:
        self.is_recompute, self.op_output = is_recompute, op_output


class _Kept:
    """The results of the ops that a policy keeps, by op, in the order in which they ran."""

    def __init__(self, allow_mutation: bool) -> None:
        self.results: dict[str, list[Any]] = {}
        self.allow_mutation = allow_mutation


class _Selecting(vmap.Handler):
    """Stands where vmap's handler stands, and hands on to it."""

    def __init__(self, policy: Callable[..., Any], kept: _Kept, again: bool, outer: Any) -> None:
        super().__init__()
        if outer is not None:
            self.sizes = outer.sizes
        self.policy, self.kept, self.again, self.outer = policy, kept, again, outer
        self.at: dict[str, int] = {}

    def map(self, op: Elementwise, args: tuple[Any, ...], params: Any) -> Any:
        if not self._keeps(op, args):
            return self.outer.map(op, args, params) if self.outer is not None else NotImplemented
        kind, ready = operands.promote(op, args)

        def run() -> Any:
            arrays = [a._a if isinstance(a, Tensor) else a for a in ready]
            return elementwise.kernel_for(op, kind).run(*arrays, *params)

        given = self._result(op.name, run)
        return self._noted(op.name, elementwise.run_map(op, args, params, bool(observe.observers), given))

    def operation(self, op: Operation, tensors: tuple[Any, ...], params: dict[str, Any]) -> Any:
        if op.view or not self._keeps(op, tensors):
            return self.outer.operation(op, tensors, params) if self.outer is not None else NotImplemented

        def run() -> Any:
            arrays = tuple([None if t is None else t._a for t in tensors])
            where = operands.same_device(op.label, tensors).type
            kernel = backends.pick(op.name, where, arrays, params) or backends.reference_kernel(op, where)
            return kernel.run(*arrays, **params)

        given = self._result(op.name, run)
        return self._noted(op.name, structured.operate(op, tensors, params, bool(observe.observers), given))

    def _keeps(self, op: Any, args: tuple[Any, ...]) -> bool:
        if vmap.level_of(args):
            return False  # of hidden batches the whole is computed again
        function = declarations.functions.get(op.label) or declarations.functions.get(op.name) or op
        said = self.policy(SelectiveCheckpointContext(is_recompute=self.again), function, *args)
        if isinstance(said, bool):
            return said
        if not isinstance(said, CheckpointPolicy):
            raise TypeError(
                f"a checkpoint's policy returns a CheckpointPolicy, got {type(said).__name__} for {op.name}"
            )
        return said in _SAVED

    def _result(self, name: str, run: Callable[[], Any]) -> Any:
        entries = self.kept.results.setdefault(name, [])
        if not self.again:
            result = run()
            entries.append([result, None, 0])
            return result
        k = self.at.get(name, 0)
        self.at[name] = k + 1
        if k >= len(entries):
            raise RuntimeError(text(f"{name} encountered during backward, but not found in storage", op="checkpoint",
                                    remedy="a policy that says the same in both runs"))  # fmt: skip
        result, storage, version = entries[k]
        if storage is not None and storage.version != version and not self.kept.allow_mutation:
            raise RuntimeError(
                text("Tensor cached during selective activation checkpoint has been mutated", op=name,
                     remedy="no in-place writes to what the policy keeps, or allow_cache_entry_mutation=True")
            )  # fmt: skip
        return result

    def _noted(self, name: str, out: Any) -> Any:
        """Remember the version of a result that was put aside just now."""
        if not self.again:
            first = out[0] if isinstance(out, tuple) else out
            storage = versions.storage_of(first)
            self.kept.results[name][-1][1:] = storage, storage.version
        return out


def _selecting(policy: Callable[..., Any], kept: _Kept, again: bool) -> Any:
    @contextmanager
    def block() -> Iterator[None]:
        before = mode.batch
        mode.batch = _Selecting(policy, kept, again, before)
        try:
            with observe.observing(observe.Observer()):  # every op takes the way through Python
                yield
        finally:
            mode.batch = before

    return block


class _Block:
    """A context manager that may be entered again: a retained graph runs the function a third time."""

    def __init__(self, policy: Callable[..., Any], kept: _Kept, again: bool) -> None:
        self._make, self._open = _selecting(policy, kept, again), []  # type: ignore[var-annotated]

    def __enter__(self) -> None:
        self._open.append(self._make())
        self._open[-1].__enter__()

    def __exit__(self, *exc: Any) -> Any:
        return self._open.pop().__exit__(*exc)


def create_selective_checkpoint_contexts(policy_fn_or_list: Callable[..., Any] | Sequence[Any],
                                         allow_cache_entry_mutation: bool = False) -> tuple[Any, Any]:  # fmt: skip
    """Return the two contexts for `checkpoint`'s `context_fn` that keep the results of some ops.

    policy_fn_or_list : functions whose results are kept (``[core.matmul, core.nn.functional.linear]``), or
        ``policy(ctx, function, *args)`` that gives a CheckpointPolicy.
    allow_cache_entry_mutation : do not check whether a kept result was written in place.

    >>> import functools
    >>> import core
    >>> from core.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts
    >>> w = core.ones(2, 2, requires_grad=True)
    >>> keep = functools.partial(create_selective_checkpoint_contexts, [core.matmul])
    >>> checkpoint(lambda x: (x @ w).tanh().sum(), core.ones(1, 2), use_reentrant=False, context_fn=keep).backward()
    >>> w.grad
    tensor([[0.0707, 0.0707],
            [0.0707, 0.0707]])
    """
    if callable(policy_fn_or_list):
        policy: Callable[..., Any] = policy_fn_or_list
    elif isinstance(policy_fn_or_list, Sequence) and all(callable(f) for f in policy_fn_or_list):
        names = {f.__name__ for f in policy_fn_or_list}

        def policy(ctx: Any, function: Any, *args: Any) -> CheckpointPolicy:
            named = getattr(function, "__name__", "") in names
            return CheckpointPolicy.MUST_SAVE if named else CheckpointPolicy.PREFER_RECOMPUTE
    else:
        raise TypeError("policy_fn_or_list must be either a function or a list of functions, got "
                        f"{type(policy_fn_or_list).__name__}")  # fmt: skip
    kept = _Kept(allow_cache_entry_mutation)
    return _Block(policy, kept, False), _Block(policy, kept, True)
