"""Pruning that makes models smaller and faster: whole channels, features and heads go, and parameters shrink."""

from __future__ import annotations

from . import rules_layers, rules_views
from .plan import Group, ShrinkPlan, plan, shrink
from .scores import Movement
from .trace import ShrinkError

__all__ = ["Group", "Movement", "ShrinkError", "ShrinkPlan", "plan", "shrink"]
