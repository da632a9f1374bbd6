"""What an operation is described with: parameters, a body, answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

Schema = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A parameter of the path, the query or a header.

    ``is_extension`` where the public API lacks it, ``is_repeated`` where each entry of a list is given by itself.
    """

    name: str
    place: str
    meaning: str
    schema: Schema
    is_extension: bool = False
    is_repeated: bool = False

    def to_openapi(self) -> Schema:
        """The parameter as OpenAPI has it."""
        shown: Schema = {"name": self.name, "in": self.place, "description": self.meaning, "schema": self.schema}
        if self.schema.get("type") == "array":
            shown |= {"style": "form", "explode": self.is_repeated}
        if self.is_extension:
            shown["x-extension"] = True
        return shown | {"required": True} if self.place == "path" else shown


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """A body.

    Attributes:
        model: The model of a body in JSON; of its items, where ``many`` is set.
        variants: Which of the model's examples are shown.
        many: Whether the body is a list of the model.
        media_type: Of a body in another form, which has a ``schema`` and an ``example`` instead of a model.
    """

    model: type[BaseModel] | None = None
    variants: tuple[str, ...] = ()
    many: bool = False
    media_type: str = "application/json"
    schema: Schema | None = None
    example: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """An answer that is no error; ``headers`` are the names of those it may have beside the usual.

    ``other_content`` is for a form that a client may ask for instead.
    """

    code: int
    meaning: str
    content: Content | None = None
    other_content: Content | None = None
    headers: tuple[str, ...] = ()

    @property
    def contents(self) -> list[Content]:
        """Every form it comes in."""
        return [content for content in (self.content, self.other_content) if content is not None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One method of one path.

    Attributes:
        name: Its ``operationId``.
        group: Under which heading it stands.
        summary: What it does, in a line.
        meaning: What is to be known besides.
        answers: Those that are no errors.
        parameters: Of query and headers; those of the path are known by their names.
        body: What it takes.
        takes_no_body: Whether the body may be left out.
        errors: Codes of the errors of its own; those of every operation are added.
        is_extension: Whether the public API lacks it.
    """

    name: str
    group: str
    summary: str
    meaning: str = ""
    answers: tuple[Answer, ...]
    parameters: tuple[Parameter, ...] = ()
    body: Content | None = None
    takes_no_body: bool = False
    errors: tuple[int, ...] = ()
    is_extension: bool = False


def query(
    name: str, meaning: str, schema: Schema, *, is_extension: bool = False, is_repeated: bool = False
) -> Parameter:
    """A parameter of the query; none is required."""
    return Parameter(
        name=name, place="query", meaning=meaning, schema=schema, is_extension=is_extension, is_repeated=is_repeated
    )


def header(name: str, meaning: str, schema: Schema) -> Parameter:
    """A header of the request, all of them extensions; none is required."""
    return Parameter(name=name, place="header", meaning=meaning, schema=schema, is_extension=True)


def whole_number(low: int, high: int | None = None, default: int | None = None) -> Schema:
    """The schema of a whole number."""
    limits = {"minimum": low, "maximum": high, "default": default}
    return {"type": "integer"} | {name: value for name, value in limits.items() if value is not None}


def words(*choices: str, default: str | None = None) -> Schema:
    """The schema of one of several words."""
    return {"type": "string", "enum": list(choices)} | ({} if default is None else {"default": default})
