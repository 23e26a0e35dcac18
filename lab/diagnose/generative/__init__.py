"""Adversaries, latent variables, noise schedules, flows, and text that is drawn word by word."""
