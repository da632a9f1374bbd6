"""Which resource is to be written, and with what value."""

from __future__ import annotations

from collections.abc import Callable

from mirror_sdk._client import MirrorClient
from mirror_sdk.device import DeviceObject, ReportedValue
from mirror_sdk.errors import ValueRefused
from mirror_sdk.object_table import lookup
from mirror_sdk.values import PythonValue
from mirror_sdk.widgets.models.calls import Run
from mirror_sdk.widgets.models.notices import Notices
from mirror_sdk.widgets.models.wording import value_text
from mirror_sdk.widgets.models.write_inputs import Entry, InputForm, entry_of, form_of, read_entry
from mirror_sdk.wire.paths import parse_path


class ValueInput:
    """A resource, and a value for it as it is entered.

    Args:
        client: The mirror; the resources of a device are read from it.
        run: Makes the client calls.
        notices: Told of what went wrong.
        changed: Called when something is to be shown anew.

    Attributes:
        path: The resource; empty for none.
        form: How a value of the resource is entered.
        entry: What was entered.
    """

    def __init__(self, client: MirrorClient, run: Run, *, notices: Notices, changed: Callable[[], object]) -> None:
        self.path = ""
        self.form: InputForm = form_of("")
        self.entry: Entry = self.form.initial
        self._client = client
        self._run = run
        self._notices = notices
        self._changed = changed
        self._device_id: str | None = None
        self._name = ""
        self._mirrored: DeviceObject | None = None

    def look_at(self, device_id: str | None, name: str) -> None:
        """Offer the resources of this device; they are read from the mirror, once."""
        if device_id == self._device_id:
            return
        self._device_id, self._name, self._mirrored = device_id, name, None
        if device_id is not None:
            self._run(
                lambda: self._client.get_device(device_id),
                lambda mirrored: self._took(device_id, mirrored),
                lambda error: self._failed(device_id, error),
            )

    @property
    def paths(self) -> list[tuple[str, str]]:
        """The resources to choose from, as (text, path): those of the device that may be writable."""
        known = self._mirrored.resources if self._mirrored else {}
        found = {path for path in known if _may_be_written(path)}
        if self.path and not self.path_problem:
            found.add(self.path)
        return [(path_text(path), path) for path in sorted(found, key=_path_order)]

    @property
    def paths_text(self) -> str:
        """Whose resources can be chosen."""
        if self._mirrored is not None:
            return f"listed is what {self._name} has and may take"
        return f"reading the resources of {self._name} …" if self._device_id else "pick a device to see its resources"

    def choose_path(self, path: str) -> None:
        """Write to this resource; the entry becomes the value it has, where that is known."""
        wanted = path.strip()
        if wanted != self.path:
            self.path = wanted
            self._fit_form()
            reported = self._reported
            self.entry = entry_of(self.form, reported.value) if reported else self.form.initial
            self._changed()

    def enter(self, entry: Entry) -> None:
        """What the input holds now."""
        if (entry, type(entry)) != (self.entry, type(self.entry)):
            self.entry = entry
            self._changed()

    def read(self) -> PythonValue:
        """The value that was entered.

        Raises:
            ValueRefused: It is none for the resource.
        """
        return read_entry(self.entry, self.path)

    @property
    def path_problem(self) -> str:
        """What is wrong with the path; empty where nothing is."""
        try:
            if self.path and parse_path(self.path).resource_id is None:
                return f"{self.path} is no resource; write object, instance and resource, like /3311/0/5851"
        except ValueError as error:
            return str(error)
        return ""

    @property
    def value_problem(self) -> str:
        """What is wrong with the value; empty where nothing is, or where there is no resource for it."""
        if not self.path or self.path_problem:
            return ""
        try:
            self.read()
        except ValueRefused as error:
            return str(error)
        return ""

    @property
    def text(self) -> str:
        """What the input takes, and what the device has."""
        reported = self._reported
        if reported is None:
            return self.form.hint
        return f"{self.form.hint} · {self._name} last reported {value_text(reported.value, self.form.unit)}"

    @property
    def _reported(self) -> ReportedValue | None:
        resource = self._mirrored.resources.get(self.path) if self._mirrored else None
        return resource.reported if resource else None

    def _fit_form(self) -> None:
        resource = self._mirrored.resources.get(self.path) if self._mirrored else None
        self.form = form_of(self.path, resource.unit if resource else "")

    def _took(self, device_id: str, mirrored: DeviceObject) -> None:
        if device_id == self._device_id:
            self._mirrored = mirrored
            self._fit_form()
            self._notices.clear("resources")
            self._changed()

    def _failed(self, device_id: str, error: Exception) -> None:
        if device_id == self._device_id:
            self._device_id = None
            self._notices.put("resources", f"Reading the resources of {self._name}", error)
            self._changed()


def path_text(path: str) -> str:
    """A path with what the object table calls it."""
    definition = lookup(path)
    return f"{path} · {definition.label}" if definition else path


def _may_be_written(path: str) -> bool:
    definition = lookup(path)
    return definition is None or "W" in definition.access


def _path_order(path: str) -> list[int]:
    return [int(part) for part in path.split("/")[1:]]
