"""The registration of a client's webhook, which other programs with the same access key can replace."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mirror_sdk._protocol.flow import Flow
from mirror_sdk._protocol.operations import put_callback
from mirror_sdk.errors import BadRequest, ChannelGone
from mirror_sdk.webhook.inbox import TOKEN_HEADER
from mirror_sdk.wire.channel import CallbackRegistration
from mirror_sdk.wire.errors import ErrorBody

SILENCE_SECONDS = 5.0
"""The time in seconds without a webhook call after which a client reads the service's log."""


def register(url: str, headers: Mapping[str, str]) -> Flow[bool]:
    """Register a webhook. If the service does not support numbers of entries, register it without them.

    Returns:
        Whether the service sends numbers. If so, it has a log that can be read.

    Raises:
        BadRequest: The service rejects the webhook.
        ValueError: The URL or the headers are not valid.
    """
    try:
        yield put_callback(url, headers, with_seq=True)
    except BadRequest as error:
        # A service without numbers rejects the complete registration, and its error contains the unknown member.
        if not any("include_seq" in text for text in (error.message, *(field.name for field in error.fields))):
            raise
        yield put_callback(url, headers, with_seq=False)
        return False
    return True


@dataclass(slots=True)
class RegisteredWebhook:
    """The webhook that a client has registered. All readers of the client share it.

    Attributes:
        url: The address of the webhook.
        token: The token of the registration. Each program registers a different token.
        log_end: The end of the service's log at the time of the registration, or ``None`` if the service has no log.
        is_replaced: Whether another program with the same key has removed or replaced the webhook.
    """

    url: str
    token: str
    log_end: int | None
    is_replaced: bool = False

    def note(self, found: CallbackRegistration | None) -> None:
        """Compare the webhook with the one that is currently registered, and update ``is_replaced``.

        Raises:
            ChannelGone: The webhook was replaced, and the service has no log to read instead.
        """
        tokens = [value for name, value in ((found and found.headers) or {}).items() if name.lower() == TOKEN_HEADER]
        self.is_replaced = found is None or found.url != self.url or tokens not in ([], [self.token])
        if self.is_replaced and self.log_end is None:
            message = (
                f"the webhook {self.url} of this key was removed or replaced by another program, and the service has no"
                " log to read instead; give each program a key of its own, or call"
                " client.notifications.use_webhook() again"
            )
            raise ChannelGone(410, ErrorBody(code=410, type="gone", message=message))
