"""Advantage actor-critic balances poles on carts; the physics of sixteen carts (Barto 1983) are written here."""

import math

import numpy as np

import core as torch
import core.nn as nn
import core.nn.functional as F
from core.distributions import Categorical

GRAVITY, CART, POLE, LENGTH, FORCE, TAU = 9.8, 1.0, 0.1, 0.5, 10.0, 0.02


class CartPoles:
    """Many carts at once; one that falls or has stood for 200 steps begins anew."""

    def __init__(self, n, seed=0):
        self.rng = np.random.default_rng(seed)
        self.state = self.rng.uniform(-0.05, 0.05, (n, 4))
        self.age = np.zeros(n)
        self.finished = []

    def observation(self):
        return torch.as_tensor(self.state, dtype=torch.float32)

    def step(self, action):
        x, v, angle, spin = self.state.T
        force = np.where(action == 1, FORCE, -FORCE)
        cos, sin = np.cos(angle), np.sin(angle)
        temp = (force + POLE * LENGTH * spin**2 * sin) / (CART + POLE)
        spin_rate = (GRAVITY * sin - cos * temp) / (LENGTH * (4.0 / 3.0 - POLE * cos**2 / (CART + POLE)))
        rate = temp - POLE * LENGTH * spin_rate * cos / (CART + POLE)
        self.state = np.stack((x + TAU * v, v + TAU * rate, angle + TAU * spin, spin + TAU * spin_rate), axis=1)
        self.age += 1
        fell = (abs(self.state[:, 0]) > 2.4) | (abs(self.state[:, 2]) > 12 * math.pi / 180)
        done = fell | (self.age >= 200)
        self.finished += self.age[done].tolist()
        self.age[done] = 0
        self.state[done] = self.rng.uniform(-0.05, 0.05, (int(done.sum()), 4))
        return self.observation(), torch.ones(len(done)), torch.from_numpy(done)


class ActorCritic(nn.Module):
    def __init__(self, hidden=64):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh())
        self.actor = nn.Linear(hidden, 2)
        self.critic = nn.Linear(hidden, 1)
        for layer in self.modules():
            if isinstance(layer, nn.Linear):
                nn.init.orthogonal_(layer.weight, gain=math.sqrt(2))
                nn.init.zeros_(layer.bias)
        nn.init.orthogonal_(self.actor.weight, gain=0.01)

    def forward(self, state):
        features = self.body(state)
        return Categorical(logits=self.actor(features)), self.critic(features).squeeze(-1)


def train(model, carts, steps, rollout=8, gamma=0.98, lam=1.0):
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3, eps=1e-5)
    state = carts.observation()
    for _ in range(steps):
        log_probs, values, rewards, dones, entropies = [], [], [], [], []
        for _ in range(rollout):
            policy, value = model(state)
            action = policy.sample()
            state, reward, done = carts.step(action.numpy())
            log_probs.append(policy.log_prob(action))
            entropies.append(policy.entropy())
            values.append(value)
            rewards.append(reward)
            dones.append(done)
        with torch.no_grad():
            following = model(state)[1]
            advantages, running = [], torch.zeros_like(following)
            for t in reversed(range(rollout)):
                alive = (~dones[t]).float()
                delta = rewards[t] + gamma * following * alive - values[t]
                running = delta + gamma * lam * alive * running
                advantages.insert(0, running)
                following = values[t]
        advantage, value = torch.stack(advantages), torch.stack(values)
        target = (advantage + value).detach()
        normalised = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        policy_loss = -(torch.stack(log_probs) * normalised).mean()
        value_loss = F.smooth_l1_loss(value, target)
        loss = policy_loss + 0.5 * value_loss - 0.01 * torch.stack(entropies).mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        yield loss.item()


def losses(steps):
    torch.manual_seed(0)
    return list(train(ActorCritic(), CartPoles(16), steps))


if __name__ == "__main__":
    torch.manual_seed(0)
    model, carts = ActorCritic(), CartPoles(16)
    for step, loss in enumerate(train(model, carts, 1000)):
        if step % 100 == 99:
            recent = carts.finished[-32:]
            print(f"step {step + 1:4d}  loss {loss:8.4f}  poles stand for {sum(recent) / len(recent):.0f}")
    first = sum(carts.finished[:32]) / 32
    print(f"At first a pole stood for {first:.0f} steps, now for {sum(carts.finished[-32:]) / 32:.0f} of at most 200.")
