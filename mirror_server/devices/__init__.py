"""The device side: the interface every device connection has, and the simulated devices."""
