"""The parts that a widget is made of."""

import ipywidgets

from mirror_sdk.widgets.grid import Grid


def all_parts(widget):
    return [widget, *(part for child in getattr(widget, "children", ()) for part in all_parts(child))]


def all_html(widget):
    parts = all_parts(widget)
    html = "".join(part.value for part in parts if isinstance(part, ipywidgets.HTML))
    return html + "".join(part.static_html() for part in parts if isinstance(part, Grid))
