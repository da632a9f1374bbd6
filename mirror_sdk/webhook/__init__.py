"""Webhooks: notifications that the service pushes, received by a small server or by your application."""

from __future__ import annotations

from mirror_sdk.webhook.inbox import CallbackInbox, parse_callback
from mirror_sdk.webhook.receiver import WebhookReceiver

__all__ = ["CallbackInbox", "WebhookReceiver", "parse_callback"]


def __dir__() -> list[str]:
    return __all__
