"""Puts the description together."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from itertools import chain
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, models_json_schema
from pydantic_core.core_schema import ModelSchema

from mirror_sdk.wire import routes
from mirror_sdk.wire.errors import ERROR_TYPES, ErrorBody
from mirror_sdk.wire.notifications import NotificationMessage
from mirror_sdk.wire.paths import PATH_PATTERN
from mirror_server import __version__
from mirror_server.extensions.openapi.docstrings import meanings_of_attributes, prose, summary_and_meaning
from mirror_server.notifications.webhooks import LIMIT_SECONDS
from mirror_server.views.description import (
    TEXT,
    BodySpec,
    Parameter,
    ResponseSpec,
    Schema,
    header,
    json_of,
    whole_number,
)

if TYPE_CHECKING:
    from mirror_server.extensions.openapi.views import Besides, Route

_REFERENCE = "#/components/schemas/{model}"
_SUMMARY = """\
The last reported and the last desired value of every resource of every device. Requests to devices are accepted first
and answered later, through a notification log.

It follows the public API of Arm Pelion / Izuma Device Management (Connect, Notifications, Device Echo); operations,
parameters and headers with `x-extension` are not part of that. Of the scopes in `x-scopes` a key needs one.

Answers are not to be kept by anybody on the way (`Cache-Control: no-store`): values may be personal data. An `ETag` is
for the client's own `If-None-Match`, and that of the presubscription rules for `If-Match` too.

A trailing slash and doubled slashes mean the same path. Times are RFC 3339 in UTC, payloads base64. An unknown member
of a body is refused, and so is an unknown parameter of the query. A parameter or a member that is there twice is
refused, unless its description says that it may be.
"""
_REQUEST_ID = header(
    routes.REQUEST_ID_HEADER,
    "Identifies the request in the server's log; a client may send 32 hex digits of its own.",
    TEXT | {"pattern": "^[0-9a-f]{32}$"},
    is_extension=False,
)
_RETRY_AFTER = header("Retry-After", "Seconds to wait.", whole_number(0), is_extension=False)
_RESOURCE_PATH: Schema = {
    "description": "A resource path without its first slash; the other slashes stand as they are: `3303/0/5700`.",
    "schema": TEXT | {"pattern": PATH_PATTERN.replace("(?:/", "(?:(?:^|/)", 1)},
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


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedOperation:
    """One method of one path.

    Attributes:
        name: Its ``operationId``.
        group: The heading under which it stands.
        summary: What it does, in a line.
        meaning: What is to be known besides.
        answers: Its responses that are no errors.
        path: With the names of its variables in braces.
        scopes: Of which a key must have one; none where no key is needed.
        parameters: Of the query, and headers.
        body: The body of the request.
        takes_no_body: Whether the body may be left out.
        errors: Codes of the errors of its own; those of every operation are added.
        is_extension: Whether the public API lacks it.
    """

    name: str
    group: str
    summary: str
    meaning: str
    answers: tuple[ResponseSpec, ...]
    path: str = ""
    scopes: Collection[str] = ()
    parameters: tuple[Parameter, ...] = ()
    body: BodySpec | None = None
    takes_no_body: bool = False
    errors: tuple[int, ...] = ()
    is_extension: bool = False


_DELIVERY = DescribedOperation(
    name="deliver",
    group="Notifications",
    summary="What the server sends to a webhook",
    meaning=f"One message at a time, in order, the next after 200 or 204; within {LIMIT_SECONDS} seconds. After a"
    " failure it is sent again after 1, 2, 4 ... 120 seconds, and for 24 hours without success at most.",
    body=json_of(
        NotificationMessage,
        "a read or write that the device did",
        "an observation with all its options",
        "a registration",
    ),
    answers=(ResponseSpec(200, "Taken."), ResponseSpec(204, "Taken.")),
)


def describe(
    routes: Iterable[Route], device_filters: Sequence[Parameter], besides: Sequence[Besides]
) -> dict[str, Any]:
    """The OpenAPI document of a server.

    Args:
        routes: All it answers to.
        device_filters: Parameters of each operation that selects devices.
        besides: Responses and parameters that extensions add to operations of others.
    """
    paths: dict[str, Any] = {}
    operations = []
    for route in routes:
        operation = _operation_of(route, device_filters, besides)
        operations.append(operation)
        paths.setdefault(route.path, {})[route.method] = _requested(operation)
    schemas = _schemas([*operations, _DELIVERY])
    for name in _closed_schemas(operations, schemas):
        schemas[name]["additionalProperties"] = False
    operations.append(_DELIVERY)
    headers = chain.from_iterable(response.headers for operation in operations for response in operation.answers)
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
        "webhooks": {_DELIVERY.name: {"put": _operation(_DELIVERY) | {"security": []}}},
        "components": {
            "securitySchemes": {
                "access_key": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "An access key; one key is one application.",
                }
            },
            "headers": {one.name: _parameter(one) for one in (_REQUEST_ID, _RETRY_AFTER, *headers)},
            "responses": {str(code): _error(code) for code in _ERROR_MEANINGS},
            "schemas": schemas,
        },
    }


class _Schemas(GenerateJsonSchema):
    """Describes each member by the docstring of its model, and leaves out titles, which only repeat names."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002 - pydantic's signature
        return False

    def model_schema(self, schema: ModelSchema) -> Schema:
        model, found = schema["cls"], super().model_schema(schema)
        found["description"] = prose(model)
        meanings, members = meanings_of_attributes(model), found.get("properties", {})
        for name, field in model.model_fields.items():
            if name in meanings and (member := members.get(field.alias or name)):
                member["description"] = meanings[name]
        if "object" in members:
            members["object"]["description"] = "The kind of this object, always the same word."
        return found


def _names_in(path: str) -> list[str]:
    return re.findall(r"{(\w+)}", path)


def _operation_of(route: Route, device_filters: Sequence[Parameter], besides: Sequence[Besides]) -> DescribedOperation:
    view = route.view
    summary, meaning = summary_and_meaning(view)
    group, answers, described = view.__dict__["described"]
    details = dict(described)
    added = [more[view.__name__] for more in besides if view.__name__ in more]
    by_code = {response.code: response for response in chain(answers, *(responses for responses, _ in added))}
    selecting = device_filters if details.pop("selects_devices", False) else ()
    return DescribedOperation(
        name=view.__name__,
        group=group,
        summary=summary,
        meaning=meaning,
        answers=tuple(by_code.values()),
        path=route.path,
        scopes=view.__dict__["required_scopes"],
        parameters=(*details.pop("parameters", ()), *selecting, *chain(*(more for _, more in added))),
        **details,
    )


def _parameters(operation: DescribedOperation) -> list[Schema]:
    return [
        *({"name": name, "in": "path", "required": True} | _of_path(name) for name in _names_in(operation.path)),
        *({"name": one.name, "in": one.place} | _parameter(one) for one in operation.parameters),
    ]


def _parameter(parameter: Parameter) -> Schema:
    described: Schema = {"description": parameter.meaning, "schema": parameter.schema}
    if parameter.schema.get("type") == "array":
        described |= {"style": "form", "explode": parameter.is_repeated}
    return described | ({"x-extension": True} if parameter.is_extension else {})


def _of_path(name: str) -> Schema:
    if name == "path":
        return _RESOURCE_PATH
    what, mark, _ = name.partition("_id")
    return {"description": f"The {what}'s {'id' if mark else 'name'}.", "schema": TEXT | {"minLength": 1}}


def _operation(operation: DescribedOperation) -> Schema:
    described: Schema = {
        "operationId": operation.name,
        "tags": [operation.group],
        "summary": operation.summary,
        "responses": {str(response.code): _response(response) for response in operation.answers},
    }
    if operation.meaning:
        described["description"] = operation.meaning
    if operation.body is not None:
        described["requestBody"] = {"required": not operation.takes_no_body, "content": _content(operation.body)}
    if operation.is_extension:
        described["x-extension"] = True
    return described


def _requested(operation: DescribedOperation) -> Schema:
    """An operation of the server, which has errors, parameters and scopes."""
    described = _operation(operation)
    described["responses"] |= _errors(operation)
    if parameters := _parameters(operation):
        described["parameters"] = parameters
    return described | ({"x-scopes": sorted(operation.scopes)} if operation.scopes else {"security": []})


def _response(response: ResponseSpec) -> Schema:
    described: Schema = {"description": response.meaning, "headers": _header_references(*response.headers)}
    content = dict(chain.from_iterable(_content(form).items() for form in response.contents))
    return described | ({"content": content} if content else {})


def _errors(operation: DescribedOperation) -> Schema:
    codes = {408, 414, 431, 500, 503, *operation.errors}
    if _names_in(operation.path):
        codes.add(404)
    if operation.scopes:
        codes |= {400, 401, 403, 429}
    if operation.body is not None:
        codes |= {413, 415}
    return {str(code): {"$ref": f"#/components/responses/{code}"} for code in sorted(codes)}


def _error(code: int) -> Schema:
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
        "headers": _header_references(*([_RETRY_AFTER] if code in {429, 503} else [])),
        "content": {"application/json": content},
    }


def _header_references(*headers: Parameter) -> Schema:
    return {one.name: {"$ref": f"#/components/headers/{one.name}"} for one in (_REQUEST_ID, *headers)}


def _content(content: BodySpec) -> Schema:
    if content.model is None:
        return {content.media_type: {"schema": content.schema, "example": content.example}}
    reference = {"$ref": _REFERENCE.format(model=content.model.__name__)}
    values = {variant: _example(content.model, variant) for variant in content.variants}
    return {
        content.media_type: {
            "schema": {"type": "array", "items": reference} if content.is_list else reference,
            "examples": {
                variant: {"value": [value] if content.is_list else value} for variant, value in values.items()
            },
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


def _schemas(operations: Collection[DescribedOperation]) -> dict[str, Schema]:
    models: set[type[BaseModel]] = {ErrorBody}
    for operation in operations:
        models |= {content.model for content in _contents(operation) if content.model is not None}
    ordered = sorted(models, key=lambda model: model.__name__)
    _, schema = models_json_schema(
        [(model, "validation") for model in ordered], ref_template=_REFERENCE, schema_generator=_Schemas
    )
    found: dict[str, Schema] = schema["$defs"]
    return found


def _contents(operation: DescribedOperation) -> Iterator[BodySpec]:
    if operation.body is not None:
        yield operation.body
    yield from chain.from_iterable(response.contents for response in operation.answers)


def _closed_schemas(operations: Collection[DescribedOperation], schemas: Mapping[str, Schema]) -> set[str]:
    """The names of the schemas that bodies consist of: there an unknown member is refused."""
    found: set[str] = set()
    unseen = {operation.body.model.__name__ for operation in operations if operation.body and operation.body.model}
    while unseen:
        name = unseen.pop()
        found.add(name)
        unseen |= set(re.findall(r"#/components/schemas/(\w+)", json.dumps(schemas[name]))) - found
    return {name for name in found if "properties" in schemas[name]}
