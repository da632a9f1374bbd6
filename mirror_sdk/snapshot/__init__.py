"""The fleet snapshot: the state table of many devices, all as of one instant."""
