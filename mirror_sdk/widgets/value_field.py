"""An input field for a value, by the type of its resource."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import ipywidgets as widgets

from mirror_sdk.object_table import ResourceType
from mirror_sdk.widgets.controls import LABELED
from mirror_sdk.widgets.models.write_inputs import Entry, InputForm


class ValueField(widgets.HBox):  # type: ignore[misc] # ipywidgets has no types
    """An input with one entry. Another form replaces its fields.

    Numbers are entered as text: a number field of ipywidgets silently changes the input to fit its range, and that of a
    browser drops invalid input.

    Args:
        enter: Called with an entry.
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
        self._displayed: dict[widgets.Widget, object] = {}
        self._unit_view = widgets.Label()
        self.fields: list[widgets.Widget] = []
        super().__init__(
            layout={"flex_flow": "row wrap", "align_items": "center", "min_height": "36px", "width": "100%"}
        )

    def show(self, form: InputForm, entry: Entry, name: str) -> None:
        """Show the entry in the fields of its form.

        Args:
            form: The input form.
            entry: The content of the input.
            name: The name of the value, for screen readers.
        """
        # A new unit does not replace the fields, since the user may be typing in one.
        self._unit_view.value = form.unit
        self._unit_view.layout.display = "inline-block" if form.unit else "none"
        fields_form = replace(form, unit="")
        if fields_form != self._form:
            self._form = fields_form
            self._make(form)
        for field in self.fields:
            field.tooltip = name
            value = _displayed_value(field, entry)
            # Set only changed values: a newer entry may be on its way from the page, and would be lost.
            if value is not None and value != self._displayed.get(field):
                self._displayed[field] = field.value = value

    def _make(self, form: InputForm) -> None:
        old, self.fields, self._displayed = self.fields, _fields(form), {}
        for field in self.fields:
            field.observe(self._changed(partial(self._accept, field)), "value")
        self.children = [*self.fields, self._unit_view]
        for field in old:
            field.close()

    def _accept(self, field: widgets.Widget, new: Any) -> None:
        self._displayed[field] = new
        if isinstance(field, widgets.FileUpload):
            self._enter(bytes(new[0]["content"]) if new else "")
        else:
            # A slider and the text field next to it have the same entry, a text.
            self._enter(str(new) if isinstance(field, widgets.IntSlider) else new)


def _fields(form: InputForm) -> list[widgets.Widget]:
    if form.type is ResourceType.BOOLEAN:
        return [widgets.Checkbox(description="Value: true", indent=False, layout={"width": "auto"})]
    layout = {"width": "190px"} if form.range else {"flex": "1 1 190px", "max_width": "410px", "width": "auto"}
    text = widgets.Text(description="Value", placeholder=form.placeholder, layout=layout, style=LABELED)
    if form.range:
        low, high = form.range
        return [
            text,
            widgets.IntSlider(
                min=low,
                max=high,
                value=low,
                readout=False,
                layout={"flex": "1 1 100px", "max_width": "230px", "width": "auto"},
            ),
        ]
    if form.type is ResourceType.OPAQUE:
        return [text, widgets.FileUpload(description="File")]
    return [text]


def _displayed_value(field: widgets.Widget, entry: Entry) -> object:
    """Return the value of the field for an entry; ``None`` if it cannot display the entry and stays unchanged."""
    if isinstance(field, widgets.IntSlider):
        try:
            number = int(str(entry))
        except ValueError:
            return None
        return number if field.min <= number <= field.max else None
    if isinstance(field, widgets.FileUpload):
        # A file stays displayed until another entry replaces it.
        return None if isinstance(entry, bytes) else ()
    return "" if isinstance(entry, bytes) else entry
