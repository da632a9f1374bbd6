"""The ``mirror`` command: the client in a shell."""

from mirror_sdk.cli.group import main

__all__ = ["main"]
