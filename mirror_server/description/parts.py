"""What an operation is described with, at its view: what neither the view itself nor its docstring says."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from pydantic import BaseModel

from mirror_server.description.docstrings import summary_and_meaning

View = TypeVar("View", bound=Callable[..., Any])
Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
INSTANT: Schema = {"type": "string", "format": "date-time"}


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of the query, or a header of a request or an answer.

    ``is_extension`` where the public API lacks it, ``is_repeated`` where each entry of a list is given by itself.
    """

    name: str
    meaning: str
    schema: Schema
    is_extension: bool = False
    is_repeated: bool = False
    place: str = "query"

    def to_openapi(self) -> Schema:
        """The parameter as OpenAPI has it, without its name and place."""
        shown: Schema = {"description": self.meaning, "schema": self.schema}
        if self.schema.get("type") == "array":
            shown |= {"style": "form", "explode": self.is_repeated}
        return shown | ({"x-extension": True} if self.is_extension else {})


def header(name: str, meaning: str, schema: Schema = TEXT, *, is_extension: bool = True) -> Parameter:
    """A header of a request or of an answer; none is required."""
    return Parameter(name, meaning, schema, is_extension, place="header")


ETAG = header("ETag", "Changes with the content.", is_extension=False)
UNLESS_CHANGED = header(
    "If-None-Match", "The `ETag` of an earlier answer: if nothing has changed since, the answer is 304."
)


@dataclass(frozen=True, slots=True)
class Content:
    """A body; see :func:`json_of` and :func:`text_of`."""

    model: type[BaseModel] | None = None
    variants: tuple[str, ...] = ()
    is_list: bool = False
    media_type: str = "application/json"
    schema: Schema | None = None
    example: Any = None


def json_of(model: type[BaseModel], *variants: str, is_list: bool = False) -> Content:
    """A body in JSON.

    Args:
        model: Its model; of its items, where ``is_list`` is set.
        variants: Which of the model's examples are shown; models of ``mirror_sdk.wire`` have some.
        is_list: Whether the body is a list of the model.
    """
    return Content(model, variants, is_list)


def text_of(media_type: str, example: str, meaning: str | None = None) -> Content:
    """A body in another form."""
    schema = TEXT if meaning is None else TEXT | {"description": meaning}
    return Content(media_type=media_type, schema=schema, example=example)


def object_like(example: dict[str, Any]) -> Content:
    """A body that is an object without a model."""
    return Content(schema={"type": "object"}, example=example)


class Answer:
    """An answer that is no error.

    Args:
        code: Its status.
        meaning: What it says.
        contents: Its body, in each of the forms that a client may ask for.
        headers: Those it may have beside the usual.
    """

    def __init__(self, code: int, meaning: str, *contents: Content, headers: tuple[Parameter, ...] = ()) -> None:
        self.code = code
        self.meaning = meaning
        self.contents = contents
        self.headers = headers


NOT_CHANGED = Answer(304, "Nothing has changed.", headers=(ETAG,))


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One method of one path.

    Attributes:
        name: Its ``operationId``.
        group: Under which heading it stands.
        summary: What it does, in a line.
        meaning: What is to be known besides.
        answers: Those that are no errors.
        parameters: Of headers, and of a query that the view checks itself.
        selects_devices: Whether the view takes other parameters of the query for conditions on devices.
        body: What it takes.
        takes_no_body: Whether the body may be left out.
        errors: Codes of the errors of its own; those of every operation are added.
        is_extension: Whether the public API lacks it.
    """

    name: str
    group: str
    summary: str
    meaning: str
    answers: tuple[Answer, ...]
    parameters: tuple[Parameter, ...] = ()
    selects_devices: bool = False
    body: Content | None = None
    takes_no_body: bool = False
    errors: tuple[int, ...] = ()
    is_extension: bool = False


def described(
    group: str,
    *answers: Answer,
    parameters: tuple[Parameter, ...] = (),
    selects_devices: bool = False,
    body: Content | None = None,
    takes_no_body: bool = False,
    errors: tuple[int, ...] = (),
    is_extension: bool = False,
) -> Callable[[View], View]:
    """Describe the operation of a view, beside the decorator that names its scopes and the parameters of its query.

    Its name is the view's, its summary the first line of the view's docstring, its meaning what follows there; for the
    rest see :class:`Operation`.
    """

    def mark(view: View) -> View:
        summary, meaning = summary_and_meaning(view)
        view.__dict__["operation"] = Operation(
            name=view.__name__,
            group=group,
            summary=summary,
            meaning=meaning,
            answers=answers,
            parameters=parameters,
            selects_devices=selects_devices,
            body=body,
            takes_no_body=takes_no_body,
            errors=errors,
            is_extension=is_extension,
        )
        return view

    return mark


class Route(NamedTuple):
    """A method (``get``) of a path (``/v3/devices/{device_id}``), and the view that answers it."""

    method: str
    path: str
    view: Callable[..., Any]

    @property
    def operation(self) -> Operation:
        """What the view is described with."""
        found: Operation = self.view.__dict__["operation"]
        return found

    @property
    def scopes(self) -> Collection[str]:
        """Of which a key must have one; none where no key is needed."""
        found: Collection[str] = self.view.__dict__["required_scopes"]
        return found

    @property
    def query(self) -> Collection[Parameter]:
        """The parameters of the query that are not refused; none where the view checks them itself."""
        found: Collection[Parameter] = self.view.__dict__["query"]
        return found


def whole_number(low: int, high: int | None = None, default: int | None = None) -> Schema:
    """The schema of a whole number."""
    limits = {"minimum": low, "maximum": high, "default": default}
    return {"type": "integer"} | {name: value for name, value in limits.items() if value is not None}


def words(*choices: str, default: str | None = None) -> Schema:
    """The schema of one of several words."""
    return TEXT | {"enum": list(choices)} | ({} if default is None else {"default": default})


# `True` and `False` are accepted too, but client generators make constants of the words, which would clash.
FLAG = words("true", "false")
