"""The ``mirror`` command."""

from mirror_sdk.cli.group import main

__all__ = ["main"]
