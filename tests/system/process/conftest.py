"""Servers in processes of their own."""

from tests.process.conftest import *  # noqa: F403 - fixtures
