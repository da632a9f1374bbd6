"""The ``mirror`` command."""

# Each of them registers its commands with the group.
from mirror_sdk.cli import device_commands, fleet_commands, lab_command, log_commands
from mirror_sdk.cli.group import main

__all__ = ["device_commands", "fleet_commands", "lab_command", "log_commands", "main"]
