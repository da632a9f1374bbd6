"""The builder of the OpenAPI document."""

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
from mirror_server.notifications.webhook_limits import LIMIT_SECONDS
from mirror_server.views.description import (
    TEXT,
    BodySpec,
    Parameter,
    ResponseSpec,
    Schema,
    header,
    integer,
    json_of,
)

if TYPE_CHECKING:
    from mirror_server.extensions.openapi.views import Additions, Route

_REFERENCE = "#/components/schemas/{model}"
_SUMMARY = """\
The last reported and the last desired value of every resource of every device. A request to a device is accepted at
once with 202. Its response arrives later, as an entry of a notification log.

The interface follows the public API of Arm Pelion / Izuma Device Management (Connect, Notifications, Device Echo).
Operations, parameters and headers with `x-extension` are not part of that API. Neither are members that are described
as an extension. A key needs one of the scopes in `x-scopes`.

Proxies and browsers must not store responses (`Cache-Control: no-store`), because values can be personal data. Your
client can store a response, and send its `ETag` in `If-None-Match`. The `ETag` of the presubscription rules can also be
sent in `If-Match`.

The server ignores a trailing slash and doubled slashes in a path. Times are RFC 3339 in UTC, and payloads are base64.
The server rejects unknown members of a body and unknown query parameters. It also rejects repeated members and
parameters, unless the description of a parameter allows them.
"""
_REQUEST_ID = header(
    routes.REQUEST_ID_HEADER,
    "Identifies the request in the server's log. A client can send its own id of 32 hexadecimal digits.",
    TEXT | {"pattern": "^[0-9a-f]{32}$"},
    is_extension=False,
)
_RETRY_AFTER = header("Retry-After", "Seconds to wait.", integer(0), is_extension=False)
_RESOURCE_PATH: Schema = {
    "description": "A resource path without its first slash. The other slashes are not encoded: `3303/0/5700`.",
    "schema": TEXT | {"pattern": PATH_PATTERN.replace("(?:/", "(?:(?:^|/)", 1)},
}
_ERROR_MEANINGS = {
    400: "The request is invalid; `fields` names the invalid parameters and members.",
    401: "The access key is missing, malformed, unknown or revoked.",
    403: "The access key lacks the required scope.",
    404: "The path, device or object does not exist.",
    406: "The format in `Accept` is not available; the message lists the available ones.",
    408: "The request did not arrive in time.",
    409: "The request conflicts with the current state.",
    410: "The poll channel was deleted during the poll.",
    412: "The object has changed since the `ETag` or revision in `If-Match`; nothing was changed.",
    413: "The body is too large.",
    414: "The request line is too long.",
    415: "The body is compressed, or not `application/json`.",
    426: "This path accepts only websockets; see the header `Upgrade`.",
    429: "A limit is reached; `Retry-After`, if present, is the time to wait.",
    431: "The headers are too large or too many.",
    500: "The server failed.",
    503: "The server cannot store anything at the moment, or has too many connections.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedOperation:
    """One method of one path.

    Attributes:
        name: The ``operationId``.
        group: The tag.
        summary: The summary, in one line.
        meaning: The description.
        responses: The responses that are not errors.
        path: The path, with its variables in braces.
        scopes: The scopes, of which a key needs at least one. Empty if no key is needed.
        parameters: The query parameters and headers.
        body: The body of the request.
        is_body_optional: Whether the body may be omitted.
        errors: The status codes of errors that only some operations have. The common errors are added.
        is_extension: Whether the public API lacks the operation.
    """

    name: str
    group: str
    summary: str
    meaning: str
    responses: tuple[ResponseSpec, ...]
    path: str = ""
    scopes: Collection[str] = ()
    parameters: tuple[Parameter, ...] = ()
    body: BodySpec | None = None
    is_body_optional: bool = False
    errors: tuple[int, ...] = ()
    is_extension: bool = False


_DELIVERY = DescribedOperation(
    name="deliver",
    group="Notifications",
    summary="The request that the server sends to a webhook",
    meaning="The server sends one message at a time, in order, and the next one after 200 or 204. The webhook has to"
    f" respond within {LIMIT_SECONDS} seconds. A failed message is sent again after 1, 2, 4 ... 120 seconds, for at"
    " most 24 hours without success.",
    body=json_of(
        NotificationMessage,
        "a read or write that the device performed",
        "an observation with all its options",
        "a registration",
    ),
    responses=(ResponseSpec(200, "Accepted."), ResponseSpec(204, "Accepted.")),
)


def describe(
    routes: Iterable[Route], device_filters: Sequence[Parameter], additions: Sequence[Additions]
) -> dict[str, Any]:
    """Return the OpenAPI document of a server.

    Args:
        routes: All described routes of the server.
        device_filters: The parameters of each operation that selects devices.
        additions: The responses and parameters that extensions add to operations of the core or of other extensions.
    """
    paths: dict[str, Any] = {}
    operations = []
    for route in routes:
        operation = _operation_of(route, device_filters, additions)
        operations.append(operation)
        paths.setdefault(route.path, {})[route.method] = _server_operation(operation)
    schemas = _schemas([*operations, _DELIVERY])
    for name in _closed_schemas(operations, schemas):
        schemas[name]["additionalProperties"] = False
    operations.append(_DELIVERY)
    headers = chain.from_iterable(response.headers for operation in operations for response in operation.responses)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Device state mirror",
            "version": __version__,
            "description": _SUMMARY,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        # A relative URL is correct even if a proxy adds a prefix to the path.
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
    """A generator that describes members by the docstrings of models.

    It omits titles, because they only repeat names.
    """

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002 - pydantic's signature
        return False

    def model_schema(self, schema: ModelSchema) -> Schema:
        model, generated = schema["cls"], super().model_schema(schema)
        generated["description"] = prose(model)
        meanings, members = meanings_of_attributes(model), generated.get("properties", {})
        for name, field in model.model_fields.items():
            if name in meanings and (member := members.get(field.alias or name)):
                member["description"] = meanings[name]
        if "object" in members:
            members["object"]["description"] = "The kind of this object, always the same word."
        return generated


def _names_in(path: str) -> list[str]:
    return re.findall(r"{(\w+)}", path)


def _operation_of(
    route: Route, device_filters: Sequence[Parameter], additions: Sequence[Additions]
) -> DescribedOperation:
    view = route.view
    summary, meaning = summary_and_meaning(view)
    group, responses, described = view.__dict__["described"]
    details = dict(described)
    added = [addition[view.__name__] for addition in additions if view.__name__ in addition]
    # A response of an extension replaces the response with the same status code.
    by_code = {response.code: response for response in chain(responses, *(others for others, _ in added))}
    filters = device_filters if details.pop("selects_devices", False) else ()
    return DescribedOperation(
        name=view.__name__,
        group=group,
        summary=summary,
        meaning=meaning,
        responses=tuple(by_code.values()),
        path=route.path,
        scopes=view.__dict__["required_scopes"],
        parameters=(*details.pop("parameters", ()), *filters, *chain(*(parameters for _, parameters in added))),
        **details,
    )


def _parameters(operation: DescribedOperation) -> list[Schema]:
    return [
        *({"name": name, "in": "path", "required": True} | _path_variable(name) for name in _names_in(operation.path)),
        *({"name": one.name, "in": one.location} | _parameter(one) for one in operation.parameters),
    ]


def _parameter(parameter: Parameter) -> Schema:
    described: Schema = {"description": parameter.meaning, "schema": parameter.schema}
    if parameter.schema.get("type") == "array":
        described |= {"style": "form", "explode": parameter.is_repeated}
    return described | ({"x-extension": True} if parameter.is_extension else {})


def _path_variable(name: str) -> Schema:
    if name == "path":
        return _RESOURCE_PATH
    owner, is_id, _ = name.partition("_id")
    return {"description": f"The {owner}'s {'id' if is_id else 'name'}.", "schema": TEXT | {"minLength": 1}}


def _operation(operation: DescribedOperation) -> Schema:
    described: Schema = {
        "operationId": operation.name,
        "tags": [operation.group],
        "summary": operation.summary,
        "responses": {str(response.code): _response(response) for response in operation.responses},
    }
    if operation.meaning:
        described["description"] = operation.meaning
    if operation.body is not None:
        described["requestBody"] = {"required": not operation.is_body_optional, "content": _content(operation.body)}
    if operation.is_extension:
        described["x-extension"] = True
    return described


def _server_operation(operation: DescribedOperation) -> Schema:
    """Describe an operation of the server, with its errors, parameters and scopes. A webhook has none of these."""
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
        "message": "what happened, and what to do next",
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
def _golden_examples() -> dict[str, dict[str, Any]]:
    """Return the examples of the interface, by the name of the model and the variant."""
    files = (resources.files("mirror_sdk.wire") / "examples").iterdir()
    contents = [json.loads(file.read_text(encoding="utf-8")) for file in files if file.name.endswith(".json")]
    return {content["model"].rpartition(".")[2]: content["variants"] for content in contents}


def _example(model: type, variant: str) -> Any:
    return _golden_examples()[model.__name__][variant]


def _schemas(operations: Collection[DescribedOperation]) -> dict[str, Schema]:
    models: set[type[BaseModel]] = {ErrorBody}
    for operation in operations:
        models |= {content.model for content in _contents(operation) if content.model is not None}
    ordered = sorted(models, key=lambda model: model.__name__)
    _, schema = models_json_schema(
        [(model, "validation") for model in ordered], ref_template=_REFERENCE, schema_generator=_Schemas
    )
    schemas: dict[str, Schema] = schema["$defs"]
    return schemas


def _contents(operation: DescribedOperation) -> Iterator[BodySpec]:
    if operation.body is not None:
        yield operation.body
    yield from chain.from_iterable(response.contents for response in operation.responses)


def _closed_schemas(operations: Collection[DescribedOperation], schemas: Mapping[str, Schema]) -> set[str]:
    """Return the names of all schemas in request bodies, because the server rejects unknown members in them."""
    visited: set[str] = set()
    pending = {operation.body.model.__name__ for operation in operations if operation.body and operation.body.model}
    while pending:
        name = pending.pop()
        visited.add(name)
        pending |= set(re.findall(r"#/components/schemas/(\w+)", json.dumps(schemas[name]))) - visited
    return {name for name in visited if "properties" in schemas[name]}
