"""A field for a name, or for several names separated by commas, with completion."""

from __future__ import annotations

from importlib.resources import files

import traitlets

from mirror_sdk.widgets.lazy_module import LazyModule


class NameField(LazyModule):
    """A field for names. The page has all names, and sends no request while the user types.

    In a list, Tab completes a name to the longest common prefix, as in a shell. If there is nothing to complete, it
    moves to the next field. Names that contain commas are not offered in a list.

    Typed text stays when the names change; a ``Combobox`` of ipywidgets would replace it by the value before.

    Attributes:
        value: The text of the field, once Enter is pressed or the field is left.
        names: The names that are offered.
        is_list: Whether the field takes several names, separated by commas.
        description: The label of the field.
        placeholder: The text of the field while it is empty.
    """

    module_text = (files(__package__) / "name_field.js").read_text(encoding="utf-8")

    value = traitlets.Unicode().tag(sync=True)
    names = traitlets.List(traitlets.Unicode()).tag(sync=True)
    is_list = traitlets.Bool(default_value=True).tag(sync=True)
    description = traitlets.Unicode().tag(sync=True)
    placeholder = traitlets.Unicode().tag(sync=True)
