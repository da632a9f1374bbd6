"""Simulated devices: what they measure, how they answer, and a manual clock to play them by."""
