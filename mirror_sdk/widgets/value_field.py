"""An input for a value, of the kind that fits its resource."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ipywidgets as widgets

from mirror_sdk.widgets.models.write_inputs import Entry, InputForm, InputKind

_STYLE = {"description_width": "70px"}
_WIDE = {"width": "340px"}
_NARROW = {"width": "190px"}


class ValueField(widgets.HBox):  # type: ignore[misc] # ipywidgets has no types
    """Holds one entry; its parts are made anew for each form.

    Args:
        enter: Told of an entry.
        changed: Makes handlers of fields.
    """

    def __init__(
        self,
        enter: Callable[[Entry], object],
        changed: Callable[[Callable[[Any], object]], Callable[..., None]],
    ) -> None:
        self._enter = enter
        self._changed = changed
        self._form: InputForm | None = None
        self._entry: Entry | None = None
        self._parts: list[widgets.Widget] = []
        self.fields: list[widgets.Widget] = []
        super().__init__(layout={"flex_flow": "row wrap", "align_items": "center", "min_height": "36px"})

    def show(self, form: InputForm, entry: Entry, name: str) -> None:
        """Show the entry in the input its form asks for.

        Args:
            form: How the value is entered.
            entry: What the input holds.
            name: What the value is, for people who do not see what is around it.
        """
        if form != self._form:
            self._form, self._entry = form, None
            self._make(form)
        for field in self.fields:
            field.tooltip = name
            # Not what it shows already: what people entered since may be on its way, and would be lost.
            if entry != self._entry:
                _fill(field, entry)
        self._entry = entry

    def _make(self, form: InputForm) -> None:
        old, self.fields = self._parts, _FIELDS[form.kind](form)
        for field in self.fields:
            field.observe(self._changed(lambda new: self._enter(_entry(new))), "value")
        self._parts = [*self.fields, *([widgets.Label(form.unit)] if form.unit else [])]
        self.children = self._parts
        for part in old:
            part.close()


def _boolean(_: InputForm) -> list[widgets.Widget]:
    return [
        widgets.Checkbox(description="Value: true", indent=False, layout={"width": "auto", "margin": "2px 0 2px 80px"})
    ]


def _range(form: InputForm) -> list[widgets.Widget]:
    low, high = form.range or (0, 0)
    limits = {"min": low, "max": high, "value": low}
    number = widgets.BoundedIntText(**limits, description="Value", layout=_NARROW, style=_STYLE)
    return [number, widgets.IntSlider(**limits, readout=False, layout={"width": "230px"})]


def _float(_: InputForm) -> list[widgets.Widget]:
    return [widgets.FloatText(description="Value", layout=_NARROW, style=_STYLE)]


def _text(form: InputForm) -> list[widgets.Widget]:
    return [widgets.Text(description="Value", placeholder=form.placeholder, layout=_WIDE, style=_STYLE)]


def _bytes(form: InputForm) -> list[widgets.Widget]:
    return [*_text(form), widgets.FileUpload(description="File", layout={"width": "100px"})]


_FIELDS: dict[InputKind, Callable[[InputForm], list[widgets.Widget]]] = {
    InputKind.BOOLEAN: _boolean,
    InputKind.RANGE: _range,
    InputKind.INTEGER: _text,
    InputKind.FLOAT: _float,
    InputKind.TEXT: _text,
    InputKind.TIME: _text,
    InputKind.LINK: _text,
    InputKind.BYTES: _bytes,
}


def _entry(new: Any) -> Entry:
    """What a field holds; a file as its bytes."""
    if isinstance(new, tuple):
        return bytes(new[0]["content"]) if new else ""
    entry: Entry = new
    return entry


def _fill(field: widgets.Widget, entry: Entry) -> None:
    is_file = isinstance(entry, bytes)
    if isinstance(field, widgets.FileUpload):
        if not is_file:
            field.value = ()
    else:
        field.value = "" if is_file else entry
