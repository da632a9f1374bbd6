"""The known content types, and other names that services and devices use for them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

TEXT_PLAIN = "text/plain"
OCTET_STREAM = "application/octet-stream"
LINK_FORMAT = "application/link-format"
JSON = "application/json"
CBOR = "application/cbor"
SENML_JSON = "application/senml+json"
SENML_CBOR = "application/senml+cbor"
LWM2M_TLV = "application/vnd.oma.lwm2m+tlv"
LWM2M_JSON = "application/vnd.oma.lwm2m+json"

CONTENT_FORMATS: Mapping[int, str] = {
    0: TEXT_PLAIN,
    40: LINK_FORMAT,
    42: OCTET_STREAM,
    50: JSON,
    60: CBOR,
    110: SENML_JSON,
    112: SENML_CBOR,
    11542: LWM2M_TLV,
    11543: LWM2M_JSON,
    1541: TEXT_PLAIN,
    1542: LWM2M_TLV,
    1543: LWM2M_JSON,
    1544: OCTET_STREAM,
}
"""The content types by their CoAP numbers. Clients older than LwM2M 1.0 use the numbers from 1541 to 1544.

Source: CoAP Content-Formats registry; LwM2M core, data formats.
"""

ALIASES: Mapping[str, str] = {str(number): name for number, name in CONTENT_FORMATS.items()} | {
    "application/nanoservice-tlv": LWM2M_TLV,
    "application/vnd.oma.lwm2m+text": TEXT_PLAIN,
    "application/vnd.oma.lwm2m+opaq": OCTET_STREAM,
}
"""Other names of content types: their CoAP numbers, and the names that were used before the registration."""


@lru_cache(maxsize=256)
def media_type(content_type: str) -> str:
    """Return the content type without parameters, except for a ``charset`` that is not UTF-8."""
    name, *parameters = (part.strip().lower() for part in content_type.split(";"))
    charsets = {part.removeprefix("charset=").strip('"') for part in parameters if part.startswith("charset=")}
    return ALIASES.get(name, name) if charsets <= {"utf-8", "utf8", "us-ascii"} else content_type
