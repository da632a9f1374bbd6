"""Descriptions of views for the OpenAPI document, in addition to their signatures and docstrings.

The core and the extensions use this module. Names follow OpenAPI, and schemas are JSON Schema.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypedDict, TypeVar, Unpack

from pydantic import BaseModel

View = TypeVar("View", bound=Callable[..., Any])
Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
INSTANT: Schema = {"type": "string", "format": "date-time"}


@dataclass(frozen=True, slots=True)
class Parameter:
    """A query parameter, or a header of a request or a response.

    ``is_extension`` is whether the public API lacks the parameter. ``is_repeated`` is whether the parameter is
    repeated for each item of a list.
    """

    name: str
    meaning: str
    schema: Schema
    is_extension: bool = False
    is_repeated: bool = False
    location: str = "query"


def header(name: str, meaning: str, schema: Schema = TEXT, *, is_extension: bool = True) -> Parameter:
    """Describe an optional header of a request or of a response."""
    return Parameter(name, meaning, schema, is_extension, location="header")


class BodySpec(NamedTuple):
    """The body of a request or a response. See :func:`json_of`, :func:`text_of` and :func:`object_like`."""

    model: type[BaseModel] | None = None
    variants: tuple[str, ...] = ()
    is_list: bool = False
    media_type: str = "application/json"
    schema: Schema | None = None
    example: Any = None


def json_of(model: type[BaseModel], *variants: str, is_list: bool = False) -> BodySpec:
    """Describe a JSON body.

    Args:
        model: The model of the body, or of its items if ``is_list`` is set.
        variants: The names of the model's examples to include. Models of ``mirror_sdk.wire`` have examples.
        is_list: Whether the body is a list of objects of the model.
    """
    return BodySpec(model, variants, is_list)


def text_of(media_type: str, example: str, meaning: str | None = None) -> BodySpec:
    """Describe a body that is not JSON."""
    schema = TEXT if meaning is None else TEXT | {"description": meaning}
    return BodySpec(media_type=media_type, schema=schema, example=example)


def object_like(example: dict[str, Any]) -> BodySpec:
    """Describe a JSON object that has no model."""
    return BodySpec(schema={"type": "object"}, example=example)


class ResponseSpec:
    """A response that is not an error.

    Args:
        code: The status code.
        meaning: The description.
        contents: The body in each available format.
        headers: The headers in addition to the common headers.
    """

    def __init__(self, code: int, meaning: str, *contents: BodySpec, headers: tuple[Parameter, ...] = ()) -> None:
        self.code = code
        self.meaning = meaning
        self.contents = contents
        self.headers = headers


class Details(TypedDict, total=False):
    """The keyword arguments of :func:`described`.

    Attributes:
        parameters: The query parameters and headers.
        selects_devices: Whether all other query parameters are filters of devices.
        body: The body of the request.
        is_body_optional: Whether the body may be omitted.
        errors: The status codes of errors that only some operations have. The common errors are added.
        is_extension: Whether the public API lacks the operation.
    """

    parameters: tuple[Parameter, ...]
    selects_devices: bool
    body: BodySpec
    is_body_optional: bool
    errors: tuple[int, ...]
    is_extension: bool


def described(group: str, *responses: ResponseSpec, **details: Unpack[Details]) -> Callable[[View], View]:
    """Return a decorator that describes the operation of a view. Use it next to :func:`requires`.

    The ``operationId`` is the name of the view. The summary is the first line of the view's docstring, and the
    description is the rest. A view without this decorator is not in the OpenAPI document.

    Args:
        group: The tag of the operation.
        responses: The responses that are not errors.
        **details: See :class:`Details`.
    """

    def mark(view: View) -> View:
        view.__dict__["described"] = (group, responses, details)
        return view

    return mark


def integer(low: int, high: int | None = None, default: int | None = None) -> Schema:
    """Return the schema of an integer."""
    limits = {"minimum": low, "maximum": high, "default": default}
    return {"type": "integer"} | {name: value for name, value in limits.items() if value is not None}


def words(*choices: str, default: str | None = None) -> Schema:
    """Return the schema of an enumeration of strings."""
    return TEXT | {"enum": list(choices)} | ({} if default is None else {"default": default})
