"""Says of a view what neither its signature nor its docstring tells: for extensions, and for what describes the core.

The names follow OpenAPI, and so do the schemas, which are JSON Schema.
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
    """A parameter of the query, or a header of a request or a response.

    ``is_extension`` where the public API lacks it, ``is_repeated`` where each entry of a list is a parameter by itself.
    """

    name: str
    meaning: str
    schema: Schema
    is_extension: bool = False
    is_repeated: bool = False
    place: str = "query"


def header(name: str, meaning: str, schema: Schema = TEXT, *, is_extension: bool = True) -> Parameter:
    """A header of a request or of a response; none is required."""
    return Parameter(name, meaning, schema, is_extension, place="header")


class BodySpec(NamedTuple):
    """A body; see :func:`json_of`, :func:`text_of` and :func:`object_like`."""

    model: type[BaseModel] | None = None
    variants: tuple[str, ...] = ()
    is_list: bool = False
    media_type: str = "application/json"
    schema: Schema | None = None
    example: Any = None


def json_of(model: type[BaseModel], *variants: str, is_list: bool = False) -> BodySpec:
    """A body in JSON.

    Args:
        model: Its model; of its items, where ``is_list`` is set.
        variants: Which of the model's examples are shown; models of ``mirror_sdk.wire`` have some.
        is_list: Whether the body is a list of the model.
    """
    return BodySpec(model, variants, is_list)


def text_of(media_type: str, example: str, meaning: str | None = None) -> BodySpec:
    """A body in another form."""
    schema = TEXT if meaning is None else TEXT | {"description": meaning}
    return BodySpec(media_type=media_type, schema=schema, example=example)


def object_like(example: dict[str, Any]) -> BodySpec:
    """A body that is an object without a model."""
    return BodySpec(schema={"type": "object"}, example=example)


class ResponseSpec:
    """A response that is no error.

    Args:
        code: Its status.
        meaning: What it says.
        contents: Its body, in each of the forms that a client may ask for.
        headers: Those it may have beside the usual.
    """

    def __init__(self, code: int, meaning: str, *contents: BodySpec, headers: tuple[Parameter, ...] = ()) -> None:
        self.code = code
        self.meaning = meaning
        self.contents = contents
        self.headers = headers


class Details(TypedDict, total=False):
    """Further keywords of :func:`described`.

    Attributes:
        parameters: Of the query, and headers.
        selects_devices: Whether other parameters of the query are conditions on devices.
        body: The body of the request.
        takes_no_body: Whether the body may be left out.
        errors: Codes of the errors of its own; those of every operation are added.
        is_extension: Whether the public API lacks the operation.
    """

    parameters: tuple[Parameter, ...]
    selects_devices: bool
    body: BodySpec
    takes_no_body: bool
    errors: tuple[int, ...]
    is_extension: bool


def described(group: str, *answers: ResponseSpec, **details: Unpack[Details]) -> Callable[[View], View]:
    """Describe the operation of a view, next to the decorator that names its scopes and its query.

    Its ``operationId`` is the view's name, its summary the first line of the view's docstring, its description what
    follows there. A view without this decorator is not in the description of the interface.

    Args:
        group: The heading under which the operation stands.
        answers: Its responses that are no errors.
        **details: See :class:`Details`.
    """

    def mark(view: View) -> View:
        view.__dict__["described"] = (group, answers, details)
        return view

    return mark


def whole_number(low: int, high: int | None = None, default: int | None = None) -> Schema:
    """The schema of a whole number."""
    limits = {"minimum": low, "maximum": high, "default": default}
    return {"type": "integer"} | {name: value for name, value in limits.items() if value is not None}


def words(*choices: str, default: str | None = None) -> Schema:
    """The schema of one of several words."""
    return TEXT | {"enum": list(choices)} | ({} if default is None else {"default": default})
