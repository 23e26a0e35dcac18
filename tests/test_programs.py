"""Each complete program trains: its loss falls to a stated value in a few steps."""

from __future__ import annotations

import re

import pytest

import core

from .programs import NAMES, load, source

# Steps, and what the mean of the last five losses must be below; the first loss is above it.
TRAINS = {
    "diffusion": (40, 0.35),
    "flow": (80, 15.8),
    "gan_gradient_penalty": (20, -1.5),  # the critic's
    "gpt": (50, 3.1),
    "graph_attention": (40, 0.7),
    "lora": (60, 1.0),  # the second half teaches the adapter
    "lstm_language_model": (30, 5.8),
    "maml": (30, 1.0),
    "neural_ode": (30, 0.2),
    "resnet": (40, 2.2),
    "tagger": (40, 0.25),
    "text_classifier": (80, 1.25),
    "translation": (30, 1.2),
    "unet": (30, 0.10),
    "vae": (100, 28.0),
    "vit": (50, 2.25),
    "word2vec": (150, 2.9),
}


@pytest.mark.parametrize("name", TRAINS)
def test_the_loss_falls(name: str) -> None:
    steps, value = TRAINS[name]
    history = load(name).losses(steps)
    assert len(history) == steps
    assert history[0] > value
    assert sum(history[-5:]) / 5 < value


def test_poles_stand_longer() -> None:
    """An actor-critic's loss says little; how long its poles stand says all."""
    program = load("actor_critic")
    core.manual_seed(0)
    model, carts = program.ActorCritic(), program.CartPoles(16)
    history = list(program.train(model, carts, 300))
    assert len(history) == 300
    first, last = sum(carts.finished[:32]) / 32, sum(carts.finished[-32:]) / 32
    assert first < 30
    assert last > 1.5 * first


def test_every_program_is_tried() -> None:
    assert {*TRAINS, "actor_critic"} == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_only_the_imports_name_the_package(name: str) -> None:
    text = source(name)
    assert len(text.splitlines()) <= 160
    for line in text.splitlines():
        if re.search(r"\bcore\b", line):
            assert re.match(r"(import core(\.[\w.]+)?( as \w+)?|from core(\.[\w.]+)? import .+)$", line), line
    assert "core" not in re.sub(r"score", "", source(name, "torch"))
