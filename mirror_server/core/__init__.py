"""Pure decisions: no clock, no I/O, no threads."""
