"""A mirror with simulated devices to try things out, alone or with JupyterLab."""
