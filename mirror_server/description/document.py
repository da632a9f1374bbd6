"""Puts the description together."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from importlib import resources
from itertools import chain
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, models_json_schema

from mirror_sdk.wire import routes
from mirror_sdk.wire.errors import ERROR_TYPES, ErrorBody
from mirror_server import __version__
from mirror_server.description import parameters
from mirror_server.description.members import add_meanings
from mirror_server.description.operations import DELIVERY, OPERATIONS
from mirror_server.description.parts import Answer, Content, Operation, Schema

_REFERENCE = "#/components/schemas/{model}"
_SUMMARY = """\
The last reported and the last desired value of every resource of every device. Requests to devices are accepted first
and answered later, through a notification log that a long poll, a webhook or an event stream reads.

It follows the public API of Arm Pelion / Izuma Device Management (Connect, Notifications, Device Echo); operations,
parameters and headers with `x-extension` are not part of that. Of the scopes in `x-scopes` a key needs one.

Answers are not to be kept by anybody on the way (`Cache-Control: no-store`): values may be personal data. An `ETag` is
for the client's own `If-None-Match`, and that of the presubscription rules for `If-Match` too.

A trailing slash and doubled slashes mean the same path, and so does `x-unversioned`, which older programs ask for.
Times are RFC 3339 in UTC, payloads base64. An unknown member of a body is refused, and so is an unknown parameter of
the query. A parameter or a member that is there twice is refused; filters and `path` may be, and all filters have to
hold.
"""
_HEADERS: dict[str, Schema] = {
    routes.REQUEST_ID_HEADER: {
        "description": "Identifies the request in the server's log; a client may send 32 hex digits of its own.",
        "schema": {"type": "string", "pattern": "^[0-9a-f]{32}$"},
    },
    routes.CURSOR_HEADER: {
        "description": "Number of the last entry in the message; the next poll gives it as `after`. Only with `after`.",
        "x-extension": True,
        "schema": {"type": "integer", "minimum": 0},
    },
    routes.GAP_HEADER: {
        "description": "First and last number of entries that are gone from the log. Only with `after`.",
        "x-extension": True,
        "schema": {"type": "string", "pattern": "^[0-9]+-[0-9]+$"},
    },
    routes.TIME_HEADER: {
        "description": "All that happened before this instant, by this service's clock, stands in the log up to the"
        " number in `Mirror-Cursor`. Only with `after`; absent where the process that answers cannot know.",
        "x-extension": True,
        "schema": {"type": "string", "format": "date-time"},
    },
    routes.TOTAL_HEADER: {
        "description": "How many devices the answer has.",
        "x-extension": True,
        "schema": {"type": "integer", "minimum": 0},
    },
    routes.SUBSCRIPTION_HEADER: {
        "description": "`active` once the device accepted the subscription, `asked` until it answers, `refused` when it"
        " refused: it is asked again when it next registers or updates its registration.",
        "x-extension": True,
        "schema": {"type": "string", "enum": ["active", "asked", "refused"]},
    },
    routes.REQUESTED_AT_HEADER: {
        "description": "When the request was accepted, by this service's clock: of a repeated async-id the first time."
        " Of a write it is `desired.requested_at` too.",
        "x-extension": True,
        "schema": {"type": "string", "format": "date-time"},
    },
    routes.EXPIRES_AT_HEADER: {
        "description": "Until when the request may wait for the device, by this service's clock.",
        "x-extension": True,
        "schema": {"type": "string", "format": "date-time"},
    },
    routes.PREFERENCE_APPLIED_HEADER: {
        "description": "`wait=SECONDS` where the answer to the request was waited for and is there (RFC 7240).",
        "x-extension": True,
        "schema": {"type": "string", "pattern": "^wait=[0-9]+$"},
    },
    "ETag": {"description": "Changes with the content.", "schema": {"type": "string"}},
    "Retry-After": {"description": "Seconds to wait.", "schema": {"type": "integer", "minimum": 0}},
}
_ERROR_MEANINGS = {
    400: "Something in the request is wrong; `fields` names it.",
    401: "The access key is missing, malformed, unknown or revoked.",
    403: "The access key lacks the scope.",
    404: "There is no such thing.",
    406: "There is no such form; the message names those there are.",
    408: "The request did not arrive in time.",
    409: "It contradicts what is there.",
    410: "The poll channel was deleted meanwhile.",
    412: "What was to be changed is not what `If-Match` was given for any more; nothing was changed.",
    413: "The body is too large.",
    414: "The request line is too long.",
    415: "The body is not `application/json`, or compressed.",
    426: "Only a websocket can be opened here; `Upgrade` tells it.",
    429: "A limit is reached; `Retry-After` may tell for how long.",
    431: "The headers are too large or too many.",
    500: "The server failed.",
    503: "The server cannot store anything at the moment, or has too many connections.",
}


def describe(routes_and_scopes: Mapping[tuple[str, str], Collection[str]]) -> dict[str, Any]:
    """The OpenAPI document of the operations that a server has.

    Args:
        routes_and_scopes: The server's methods (``get``) and paths (``/v3/devices/{device_id}``), and the scopes of
            which a key must have one; none where no key is needed.
    """
    there = {place: OPERATIONS[place] for place in OPERATIONS if place in routes_and_scopes}
    paths: dict[str, Any] = {}
    for (method, path), operation in there.items():
        paths.setdefault(path, {})[method] = _operation(operation, path, routes_and_scopes[method, path])
    schemas = _schemas([*there.values(), DELIVERY])
    for name in _refused_extras(there.values(), schemas):
        schemas[name]["additionalProperties"] = False
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Device state mirror",
            "version": __version__,
            "description": _SUMMARY,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        # The description is served by the server it describes, also below the prefix of a proxy.
        "servers": [{"url": "."}],
        "security": [{"access_key": []}],
        "paths": paths,
        "webhooks": {DELIVERY.name: {"put": _operation(DELIVERY, "", ())}},
        "components": {
            "securitySchemes": {
                "access_key": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "An access key; one key is one application.",
                }
            },
            "headers": _HEADERS,
            "responses": {str(code): _error(code) for code in _ERROR_MEANINGS},
            "schemas": schemas,
        },
    }


class _WithoutTitles(GenerateJsonSchema):
    """Leaves out the titles of members, which only repeat their names."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002 - pydantic's signature
        return False


def _operation(operation: Operation, path: str, scopes: Collection[str]) -> Schema:
    described: Schema = {
        "operationId": operation.name,
        "tags": [operation.group],
        "summary": operation.summary,
        "responses": {str(answer.code): _answer(answer) for answer in operation.answers} | _errors(operation, scopes),
    }
    if operation.meaning:
        described["description"] = operation.meaning
    of_path = [parameters.OF_PATHS[name] for name in re.findall(r"{(\w+)}", path)]
    if of_path or operation.parameters:
        described["parameters"] = [parameter.to_openapi() for parameter in (*of_path, *operation.parameters)]
    if operation.body is not None:
        described["requestBody"] = {
            "required": not operation.takes_no_body,
            "content": _content(operation.body),
        }
    if (other_name := routes.unversioned(path)) is not None:
        described["x-unversioned"] = other_name
    if scopes:
        described["x-scopes"] = sorted(scopes)
    else:
        described["security"] = []
    if operation.is_extension:
        described["x-extension"] = True
    return described


def _answer(answer: Answer) -> Schema:
    described: Schema = {"description": answer.meaning, "headers": _header_references(*answer.headers)}
    content = {media_type: one for form in answer.contents for media_type, one in _content(form).items()}
    return described | ({"content": content} if content else {})


def _errors(operation: Operation, scopes: Collection[str]) -> Schema:
    if operation is DELIVERY:
        return {}
    codes = {408, 414, 431, 500, 503, *operation.errors}
    if scopes:
        codes |= {400, 401, 403, 429}
    if operation.body is not None:
        codes |= {413, 415}
    return {str(code): {"$ref": f"#/components/responses/{code}"} for code in sorted(codes)}


def _error(code: int) -> Schema:
    headers = ["Retry-After"] if code in {429, 503} else []
    body = {
        "object": "error",
        "code": code,
        "type": ERROR_TYPES[code],
        "message": "what is wrong and what to do next",
        "fields": [],
        "request_id": "0af7651916cd43dd8448eb211c80319c",
    }
    content = {"schema": {"$ref": _REFERENCE.format(model=ErrorBody.__name__)}, "example": body}
    return {
        "description": _ERROR_MEANINGS[code],
        "headers": _header_references(*headers),
        "content": {"application/json": content},
    }


def _header_references(*names: str) -> Schema:
    return {name: {"$ref": f"#/components/headers/{name}"} for name in (routes.REQUEST_ID_HEADER, *names)}


def _content(content: Content) -> Schema:
    if content.model is None:
        return {content.media_type: {"schema": content.schema, "example": content.example}}
    reference = {"$ref": _REFERENCE.format(model=content.model.__name__)}
    examples = {variant: _example(content.model, variant) for variant in content.variants}
    return {
        content.media_type: {
            "schema": {"type": "array", "items": reference} if content.many else reference,
            "examples": {variant: {"value": [value] if content.many else value} for variant, value in examples.items()},
        }
    }


@cache
def _goldens() -> dict[str, dict[str, Any]]:
    """The examples of the interface, by the name of their model."""
    files = (resources.files("mirror_sdk.wire") / "examples").iterdir()
    contents = [json.loads(file.read_text(encoding="utf-8")) for file in files if file.name.endswith(".json")]
    return {content["model"].rpartition(".")[2]: content["variants"] for content in contents}


def _example(model: type, variant: str) -> Any:
    return _goldens()[model.__name__][variant]


def _schemas(operations: Collection[Operation]) -> dict[str, Schema]:
    models: set[type[BaseModel]] = {ErrorBody}
    for operation in operations:
        models |= {content.model for content in _contents(operation) if content.model is not None}
    ordered = sorted(models, key=lambda model: model.__name__)
    _, schema = models_json_schema(
        [(model, "validation") for model in ordered], ref_template=_REFERENCE, schema_generator=_WithoutTitles
    )
    found: dict[str, Schema] = schema["$defs"]
    add_meanings(found)
    return found


def _contents(operation: Operation) -> Iterator[Content]:
    if operation.body is not None:
        yield operation.body
    yield from chain.from_iterable(answer.contents for answer in operation.answers)


def _refused_extras(operations: Collection[Operation], schemas: Mapping[str, Schema]) -> set[str]:
    """The names of the schemas that bodies consist of: there an unknown member is refused."""
    found: set[str] = set()
    unseen = {operation.body.model.__name__ for operation in operations if operation.body and operation.body.model}
    while unseen:
        name = unseen.pop()
        found.add(name)
        unseen |= set(re.findall(r"#/components/schemas/(\w+)", json.dumps(schemas[name]))) - found
    return {name for name in found if "properties" in schemas[name]}
