"""Advantages of single rewards, and masks that are added to a target where they should be multiplied."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from ..finding import Found
from ..order import text_rule
from ..reading.calls import bare, name_of
from ..reading.scope import Scope
from ..reading.sources import called
from ..training.left_unused import DISCOUNT, REWARD

ADVANTAGE = re.compile(r"^(b_|mb_|batch_)?adv(antage)?s?(_\w+)?$|td_?err", re.I)
REWARDS = re.compile(r"^(b_|mb_|batch_|ep_)?(rews?|rewards?)(_\w+)?$", re.I)
RETURNS = re.compile(
    r"^(b_|mb_|batch_|ep_|disc\w*_)?(returns?|rets?|rtgs?|rewards_to_go|reward_to_go|g_?ts?)(_\w+)?$", re.I
)
ALIVE = re.compile(r"mask|done|termin|nonterm|not_end|alive|cont", re.I)


@text_rule(592, trains=True, earlier=True)
def rewards_for_returns(scope: Scope) -> Iterator[Found]:
    """``advantages = rewards - values``, where ``returns`` was summed up before: what comes later is not counted."""
    summed = [
        n for n in scope.nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store) and RETURNS.match(n.id)
    ]
    for pair in scope.index.given:
        node = pair.value
        if not ADVANTAGE.match(pair.name) or not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Sub):
            continue
        reward, value = bare(node.left), bare(node.right)
        if not REWARDS.match(name_of(reward)) or REWARDS.match(name_of(value)) or _discounted(scope, reward):
            continue
        before = [n for n in summed if n.lineno < node.lineno and not _later(scope, n, name_of(value))]
        if not before:
            continue
        name = before[0].id
        message = (
            f"holds the value against the reward of one step (`{ast.unparse(node)}`): a value is of all that comes, "
            f"and {name} ({scope.place(before[0]).words}), which sums that up, is not asked; what an action brings "
            "later counts for nothing."
        )
        yield scope.tell(node, "loss", message, f"Take it: {pair.name} = {name} - {ast.unparse(value)}.")


def _discounted(scope: Scope, node: ast.expr) -> bool:
    """Whether rewards have become returns under their own name."""
    value = scope.flow.inner(node)
    return any(DISCOUNT.match(ast.unparse(n)) for n in ast.walk(value) if isinstance(n, ast.Name | ast.Attribute))


def _later(scope: Scope, name: ast.Name, value: str) -> bool:
    """Whether returns are made of the advantages: ``returns = advantages + values``."""
    made = [p.value for p in scope.index.given if p.name == name.id]
    return any(ADVANTAGE.match(name_of(n)) for one in made for n in ast.walk(one))


@text_rule(601, trains=True, earlier=True)
def mask_added(scope: Scope) -> Iterator[Found]:
    """``reward + gamma * mask + next_value``: the value of the next state is neither discounted nor masked."""
    for node in scope.index.binary.get(ast.Add, ()):
        if isinstance(scope.source.parents.get(node), ast.BinOp) or not isinstance(node.left, ast.BinOp):
            continue
        first, product, value = node.left.left, node.left.right, node.right
        if not isinstance(node.left.op, ast.Add) or not REWARD.search(ast.unparse(first)):
            continue
        if not isinstance(product, ast.BinOp) or not isinstance(product.op, ast.Mult):
            continue
        sides = [ast.unparse(product.left), ast.unparse(product.right)]
        gamma = next((s for s in sides if DISCOUNT.match(s)), None)
        alive = next((s for s in sides if s != gamma and ALIVE.search(s)), None)
        if gamma is None or alive is None or not isinstance(bare(value), ast.Name | ast.Call | ast.Attribute):
            continue
        if not re.search(r"next|target|v_|q_|val", ast.unparse(value) + called(scope.flow.inner(value)), re.I):
            continue
        text = ast.unparse(value)
        message = (
            f"adds {text} beside {gamma} times {alive} (`{ast.unparse(node)}`): the value of the next state is not "
            "discounted, and counts where an episode has ended too."
        )
        yield scope.tell(node, "loss", message, f"Multiply: {ast.unparse(first)} + {gamma} * {alive} * {text}.")
