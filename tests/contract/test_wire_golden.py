"""Every object of the interface, written by hand, passes through its model unchanged."""

import copy
import importlib
import json
import pkgutil
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pydantic import BaseModel, RootModel, ValidationError
from pydantic_core import ErrorDetails

import mirror_sdk.wire
from mirror_sdk.wire.model import EntryPage, WireModel
from mirror_sdk.wire.notifications import DeregisteredDevice

DATA = Path(mirror_sdk.wire.__file__).parent / "examples"
FREE_FORM_MEMBERS = {"headers", "custom_attributes", "changes"}
UNKNOWN = "member_of_a_later_version"

Location = tuple[str | int, ...]


class Golden(NamedTuple):
    """An object in its wire format."""

    model: type[BaseModel]
    wire: Any


def _goldens() -> Iterator[tuple[str, Golden]]:
    for file in sorted(DATA.glob("*.json")):
        content = json.loads(file.read_text(encoding="utf-8"))
        module, name = content["model"].split(".")
        model = getattr(importlib.import_module(f"mirror_sdk.wire.{module}"), name)
        for variant, wire in content["variants"].items():
            yield f"{file.stem}: {variant}", Golden(model, wire)


def _objects(wire: Any, location: Location = ()) -> Iterator[Location]:
    """Yield the locations of all objects whose members the interface names."""
    if isinstance(wire, dict):
        yield location
        for name, member in wire.items():
            if name not in FREE_FORM_MEMBERS:
                yield from _objects(member, (*location, name))
    elif isinstance(wire, list):
        for index, item in enumerate(wire):
            yield from _objects(item, (*location, index))


def _object_at(wire: Any, location: Location) -> Any:
    for step in location:
        wire = wire[step]
    return wire


def _to_wire(model: BaseModel) -> Any:
    return [item.to_wire() for item in model.root] if isinstance(model, RootModel) else model.to_wire()


def _read_strictly(model: type[BaseModel], wire: Any) -> BaseModel:
    return model.model_validate(wire, extra="forbid", by_alias=True, by_name=False)


GOLDENS = dict(_goldens())
every_golden = pytest.mark.parametrize("name", GOLDENS)


@every_golden
def test_an_object_comes_back_as_it_was_read(name: str) -> None:
    golden = GOLDENS[name]
    assert _to_wire(_read_strictly(golden.model, golden.wire)) == golden.wire
    read = golden.model.model_validate_json(json.dumps(golden.wire), extra="forbid", by_alias=True, by_name=False)
    assert json.loads(json.dumps(_to_wire(read))) == golden.wire


@every_golden
def test_unknown_member_is_retained_by_lenient_reading_and_rejected_by_strict_reading(name: str) -> None:
    golden = GOLDENS[name]
    for location in _objects(golden.wire):
        wire = copy.deepcopy(golden.wire)
        _object_at(wire, location)[UNKNOWN] = {"nested": [1, None]}
        assert _to_wire(golden.model.model_validate(wire)) == wire
        with pytest.raises(ValidationError) as caught:
            _read_strictly(golden.model, wire)
        rejections = [(error["type"], _location_of(error)) for error in caught.value.errors()]
        assert rejections == [("extra_forbidden", (*location, UNKNOWN))]


def _location_of(error: ErrorDetails) -> Location:
    """Return the location of a member, without the model name that pydantic adds for a union."""
    return tuple(part for part in error["loc"] if part != DeregisteredDevice.__name__)


def _models_in(value: Any) -> Iterator[WireModel]:
    if isinstance(value, WireModel):
        yield value
        for name in type(value).model_fields:
            yield from _models_in(getattr(value, name))
    elif isinstance(value, RootModel):
        yield from _models_in(value.root)
    elif isinstance(value, list):
        for item in value:
            yield from _models_in(item)


def _wire_models() -> set[type[WireModel]]:
    modules = [
        importlib.import_module(f"mirror_sdk.wire.{found.name}")
        for found in pkgutil.iter_modules(mirror_sdk.wire.__path__)
    ]
    candidates = (value for module in modules for value in vars(module).values())
    models = {item for item in candidates if isinstance(item, type) and issubclass(item, WireModel)}
    return models - {WireModel, EntryPage}


def test_every_member_of_every_model_stands_in_an_object_written_by_hand() -> None:
    seen: defaultdict[type[WireModel], set[str]] = defaultdict(set)
    for golden in GOLDENS.values():
        for model in _models_in(_read_strictly(golden.model, golden.wire)):
            seen[type(model)] |= model.model_fields_set
    missing = {model.__name__: set(model.model_fields) - seen[model] for model in _wire_models()}
    assert {name: members for name, members in missing.items() if members} == {}
