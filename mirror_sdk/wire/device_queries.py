"""The models of saved filters for the directory. Source: wire.md 9; the public API's Device Directory."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, WithJsonSchema

from mirror_sdk.wire.directory import PRINTABLE, check_printable
from mirror_sdk.wire.model import EntryPage, Timestamp, WireModel

MAX_NAME_CHARACTERS = 200
MAX_QUERY_CHARACTERS = 1000
MAX_QUERIES = 1000

_Name = Annotated[
    str,
    Field(min_length=1, max_length=MAX_NAME_CHARACTERS, json_schema_extra=PRINTABLE),
    AfterValidator(check_printable),
]
_Query = Annotated[
    str, Field(max_length=MAX_QUERY_CHARACTERS, json_schema_extra=PRINTABLE), AfterValidator(check_printable)
]
# Some generators of clients fail on a member whose type is null.
_NoValue = Annotated[None, WithJsonSchema({"const": None})]


class DeviceQuery(WireModel):
    """A filter for devices in the directory that was saved under a name.

    Attributes:
        id: The id of the query. Queries that were saved later have greater ids.
        name: The unique name of the query.
        query: The filter, in the form of the parameter ``filter`` of the directory, such as
            ``state=registered&endpoint_type=Light``.
        created_at: The time at which the query was saved.
        updated_at: The time at which the query was last changed.
        etag: The same time as ``updated_at``. It changes with every update.
    """

    object: Literal["device-query"] = "device-query"
    id: str
    name: str
    query: str
    created_at: Timestamp
    updated_at: Timestamp
    etag: str | None = None


class DeviceQueryBody(WireModel):
    """A query to save. The server sets some members itself, and accepts them only if they are null.

    Attributes:
        name: The name of the query. It must be unique.
        query: The filter, in the form of the parameter ``filter`` of ``GET /v3/devices``.
        id: Must be null, because the service sets it.
        created_at: Must be null, because the service sets it.
        updated_at: Must be null, because the service sets it.
        etag: Must be null, because the service sets it.
    """

    name: _Name
    query: _Query
    object: Literal["device-query"] | None = None
    id: _NoValue = None
    created_at: _NoValue = None
    updated_at: _NoValue = None
    etag: _NoValue = None


class DeviceQueryUpdate(WireModel):
    """The changes to make to a saved query. Omitted members stay unchanged.

    A program may send the whole query back, because the server accepts read-only members if their values are unchanged.

    Attributes:
        name: The name of the query. It must be unique.
        query: The filter, in the form of the parameter ``filter`` of ``GET /v3/devices``.
        id: Read-only.
        created_at: Read-only.
        updated_at: Read-only.
        etag: Read-only.
    """

    name: _Name | None = None
    query: _Query | None = None
    object: Literal["device-query"] | None = None
    id: str | None = None
    created_at: str | None = None
    updated_at: str | None = None
    etag: str | None = None


class DeviceQueryPage(EntryPage):
    """One page of the saved queries. It contains ``total_count`` only if that was requested."""

    data: list[DeviceQuery]
    total_count: int | None = None
