"""The ``mirror`` command, which provides the client in a shell."""

from mirror_sdk.cli.group import main

__all__ = ["main"]
