"""The simulator, which controls simulated devices and lets time pass."""
