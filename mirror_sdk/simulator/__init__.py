"""The simulator: plays the device's side of simulated devices, and lets time pass."""
