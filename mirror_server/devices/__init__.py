"""The device side: the interface every device connection has, and real devices."""
