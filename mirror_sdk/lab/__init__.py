"""A mirror with simulated devices for experiments, with or without JupyterLab."""
