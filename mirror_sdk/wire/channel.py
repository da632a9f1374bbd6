"""E4, the notification channel. Source: specification 2.3 and E4; wire.md 4."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from mirror_sdk.wire.model import WireModel


class SerializationConfig(WireModel):
    """What notifications carry besides their value; everything is off by default."""

    include_timestamp: bool = False
    include_uid: bool = False
    include_original_ep: bool = False
    deregistrations_as_object: bool = False


class Serialization(WireModel):
    """How notifications are written."""

    type: Literal["v2"] = "v2"
    max_chunk_size: Annotated[int, Field(ge=1, le=10000)] = 10000
    cfg: SerializationConfig = SerializationConfig()


class CallbackRegistration(WireModel):
    """The webhook an application registers."""

    url: Annotated[str, Field(min_length=1, max_length=400)]
    headers: dict[str, str] | None = None
    serialization: Serialization | None = None


class Channel(WireModel):
    """Which channel delivers the notifications of this key."""

    delivery_mechanism: Literal["CALLBACK", "LONG_POLLING"]
