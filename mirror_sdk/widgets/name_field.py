"""A field for a name, or for several with commas between them, that offers those there are."""

from __future__ import annotations

from importlib.resources import files

import traitlets

from mirror_sdk.widgets.lazy_module import LazyModule


class NameField(LazyModule):
    """A field for names. The page has all names once, and asks nobody while somebody types.

    Tab completes what is begun of a list as far as all names that begin so are the same, as in a shell; where there is
    nothing to add it leads to the next field. A name with a comma in it is not offered for a list.

    What is typed stays when other names come, which a ``Combobox`` of ipywidgets puts back to the value before.

    Attributes:
        value: What stands in the field, once Enter is pressed or the field is left.
        names: The names there are.
        is_list: Whether several names are taken, with commas between them; else one.
        description: The label before it.
        placeholder: What stands in it while it is empty.
    """

    module_text = (files(__package__) / "name_field.js").read_text(encoding="utf-8")

    value = traitlets.Unicode().tag(sync=True)
    names = traitlets.List(traitlets.Unicode()).tag(sync=True)
    is_list = traitlets.Bool(default_value=True).tag(sync=True)
    description = traitlets.Unicode().tag(sync=True)
    placeholder = traitlets.Unicode().tag(sync=True)
