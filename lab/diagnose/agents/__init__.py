"""Reinforcement learning: values of actions, policies, and the networks that targets come from."""
