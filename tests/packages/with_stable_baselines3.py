"""stable-baselines3: PPO, A2C and DQN on a small environment of its own."""

import gymnasium as gym
import numpy as np
import torch
from stable_baselines3 import A2C, DQN, PPO
from told import tell


class Line(gym.Env):
    observation_space = gym.spaces.Box(-5, 5, (2,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def reset(self, seed=None, options=None):
        self.at, self.time = 0.0, 0
        return np.array([self.at, 0.0], np.float32), {}

    def step(self, action):
        self.at += 0.5 if action else -0.5
        self.time += 1
        return np.array([self.at, self.time / 10], np.float32), float(self.at), abs(self.at) > 3, self.time >= 10, {}


torch.set_num_threads(1)
found = {}
for name, kind, more in (
    ("ppo", PPO, {"n_steps": 32, "batch_size": 16, "n_epochs": 2}),
    ("a2c", A2C, {"n_steps": 8}),
    ("dqn", DQN, {"learning_starts": 10, "train_freq": 4, "buffer_size": 100, "batch_size": 8}),
):
    model = kind("MlpPolicy", Line(), seed=0, device="cpu", policy_kwargs={"net_arch": [8]}, **more)
    model.learn(64)
    found[name] = [p.double().pow(2).sum() for p in model.policy.parameters()]
    found[name + " acts"] = model.predict(np.zeros((3, 2), np.float32), deterministic=True)[0].tolist()
tell(**found)
