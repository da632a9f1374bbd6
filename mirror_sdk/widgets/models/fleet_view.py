"""Named views of a fleet table, which are stored in a file.

A view has columns, groups, filters, an order and a sparkline.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Self

from mirror_sdk import _arguments
from mirror_sdk.errors import InvalidValue
from mirror_sdk.wire.paths import check_path

ATTRIBUTE = "attribute."
"""The prefix of the columns of custom attributes. The name of the attribute follows it."""
COLUMNS = (
    *("name", "status", "value", "sparkline", "last_contact", "failed", "drifting", "pending", "stale"),
    *("type", "state"),
)
"""The columns of a fleet table, except for the columns of attributes."""
STATUS_NAMES = ("failed", "drifting", "pending", "stale", "never_reported", "offline", "in_sync")
"""The statuses of devices, with the worst one first."""
MAX_VIEW_NAME_LENGTH = 80


@dataclass(frozen=True, slots=True)
class FleetView:
    """The arrangement of a fleet table.

    Attributes:
        columns: The visible columns in their order. If empty, the default columns are visible.
        group_by: The column by which devices are grouped, such as ``type`` or ``attribute.room``. If empty, devices are
            not grouped.
        status: The status of the visible devices, such as ``failed``. If empty, all devices are visible.
        search: The string to search for. Only devices that contain it are visible.
        sort_by: The column by which devices are sorted. If empty, they are sorted by status.
        descending: Whether the devices are sorted in descending order.
        resource: The path of the resource whose value and sparkline are displayed. If empty, the main value of each
            device is displayed.
    """

    columns: tuple[str, ...] = ()
    group_by: str = ""
    status: str = ""
    search: str = ""
    sort_by: str = ""
    descending: bool = False
    resource: str = ""

    def __post_init__(self) -> None:
        for name in filter(None, (*self.columns, self.group_by, self.sort_by)):
            if name not in COLUMNS and not name.startswith(ATTRIBUTE):
                raise InvalidValue(
                    f"a fleet table has no column {name!r}; {_arguments.closest(name, COLUMNS)}. The columns are "
                    f"{', '.join(COLUMNS)}, and attribute.NAME for a custom attribute."
                )
        if self.status and self.status not in STATUS_NAMES:
            raise InvalidValue(f"status must be one of {', '.join(STATUS_NAMES)}, got {self.status!r}")
        if self.resource:
            try:
                check_path(self.resource)
            except ValueError as error:
                raise InvalidValue(f"resource: {error}") from error

    @classmethod
    def from_dict(cls, view: Mapping[str, Any]) -> Self:
        """Create a view from a dictionary, such as :attr:`mirror_sdk.widgets.FleetTable.view`.

        Raises:
            InvalidValue: The dictionary has an unknown member or a member with an invalid value.
        """
        types = {field.name: type(field.default) for field in fields(cls)}
        for name, value in view.items():
            if name not in types:
                raise InvalidValue(f"a view has no member {name!r}; its members are {', '.join(types)}")
            is_valid = isinstance(value, (list, tuple)) if types[name] is tuple else isinstance(value, types[name])
            if not is_valid:
                expected = {tuple: "a list of names", str: "a text", bool: "true or false"}[types[name]]
                raise InvalidValue(f"{name} of a view must be {expected}, got {value!r}")
        members = {**view, "columns": tuple(map(str, view.get("columns", ())))}
        return cls(**members)

    def to_dict(self) -> dict[str, Any]:
        """Return the view as a dictionary of JSON values."""
        return asdict(self) | {"columns": list(self.columns)}

    def with_changes(self, changes: Mapping[str, Any]) -> FleetView:
        """Return a copy of the view with these members changed.

        Raises:
            InvalidValue: A member is unknown or has an invalid value, as for :meth:`from_dict`.
        """
        members = self.to_dict() | dict(changes)
        changed = FleetView.from_dict(members)
        return self if changed == self else replace(changed)


class ViewFile:
    """A JSON file with named views.

    Args:
        file: The path of the file. Saving the first view creates the file.

    Attributes:
        file: The path of the file.
    """

    def __init__(self, file: str | os.PathLike[str]) -> None:
        self.file = Path(file)

    def read(self) -> dict[str, FleetView]:
        """Return the views by name. The result is empty if the file does not exist.

        Raises:
            InvalidValue: The file does not contain views.
            OSError: The file cannot be read.
        """
        try:
            content = json.loads(self.file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except ValueError as error:
            raise InvalidValue(f"{self.file} is not a JSON file: {error}; repair it, or pass another file") from error
        if not isinstance(content, dict) or not all(isinstance(view, dict) for view in content.values()):
            raise InvalidValue(f"{self.file} must contain a JSON object with a view for each name")
        try:
            return {name: FleetView.from_dict(view) for name, view in content.items()}
        except InvalidValue as error:
            raise InvalidValue(f"{self.file}: {error}") from error

    def save(self, name: str, view: FleetView) -> None:
        """Save a view under a name. It replaces an earlier view with the same name.

        Raises:
            InvalidValue: The name is empty or too long, or the file does not contain views.
            OSError: The file cannot be written.
        """
        name = name.strip()
        if not name or len(name) > MAX_VIEW_NAME_LENGTH or not name.isprintable():
            raise InvalidValue(
                f"the name of a view must have 1 to {MAX_VIEW_NAME_LENGTH} printable characters, got {name!r}"
            )
        self._write(self.read() | {name: view})

    def delete(self, name: str) -> None:
        """Delete the view with this name, if there is one.

        Raises:
            InvalidValue: The file does not contain views.
            OSError: The file cannot be written.
        """
        views = self.read()
        if views.pop(name, None) is not None:
            self._write(views)

    def find(self, name: str) -> FleetView:
        """Return the view with this name.

        Raises:
            InvalidValue: No view has this name. The message lists the existing names.
            OSError: The file cannot be read.
        """
        views = self.read()
        if name not in views:
            known = f"its views are {', '.join(views)}" if views else "it has no views yet"
            raise InvalidValue(f"{self.file} has no view {name!r}; {known}")
        return views[name]

    def _write(self, views: Mapping[str, FleetView]) -> None:
        content = {name: view.to_dict() for name, view in views.items()}
        written = self.file.with_name(f"{self.file.name}.part")
        written.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        written.replace(self.file)
