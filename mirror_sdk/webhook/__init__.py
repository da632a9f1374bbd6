"""Webhooks, through which the service sends notifications to a small server or to your own web application."""

from __future__ import annotations

from mirror_sdk.webhook.inbox import CallbackInbox, parse_callback
from mirror_sdk.webhook.receiver import WebhookReceiver

__all__ = ["CallbackInbox", "WebhookReceiver", "parse_callback"]


def __dir__() -> list[str]:
    return __all__
