"""The page for people, and the reference, at ``/`` and ``/reference/``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mirror_server.hooks import extends

if TYPE_CHECKING:
    from flask import Blueprint


@extends
def blueprints() -> list[Blueprint]:
    """The page and the reference."""
    from mirror_server.extensions.page import page, reference  # noqa: PLC0415 - Flask

    return [page.routes, reference.routes]
