"""The resource to write, and the input for its value."""

from __future__ import annotations

from collections.abc import Iterable

from mirror_sdk import _arguments
from mirror_sdk._formatting import utc_text
from mirror_sdk.device import DeviceObject
from mirror_sdk.errors import InvalidValue
from mirror_sdk.events import Event
from mirror_sdk.object_definitions import lookup
from mirror_sdk.resource import Resource
from mirror_sdk.values import PythonValue
from mirror_sdk.widgets.models.formatting import format_value
from mirror_sdk.widgets.models.model import Model
from mirror_sdk.widgets.models.periodic_read import PeriodicRead
from mirror_sdk.widgets.models.write_inputs import Entry, InputForm, entry_of, form_of, read_entry
from mirror_sdk.wire.device_object import DesiredStatus
from mirror_sdk.wire.paths import parse_path

RELOAD_SECONDS = 10.0
"""The interval of regular reads, in seconds.

They are needed because no event reports the writes of other applications.
"""
RELOAD_AFTER_EVENT_SECONDS = 0.5


class ValueInput:
    """A resource, and the input of the user for its value.

    Args:
        model: The model to which the input belongs.
        path: The path of the initial resource; empty for no resource.

    Raises:
        TypeError: ``path`` is not a string.

    Attributes:
        path: The path of the resource; empty for no resource.
        form: The input form for a value of the resource.
        entry: The content of the input. After the user has changed it, only :meth:`enter` and the selection of another
            resource replace it.
    """

    def __init__(self, model: Model, path: str) -> None:
        self.path = _arguments.text("path", path).strip()
        self.form: InputForm = form_of(self.path)
        self.entry: Entry = self.form.initial
        self._model = model
        self._is_untouched = True
        self._device_id: str | None = None
        self._name = ""
        self._device: DeviceObject | None = None
        self._read = PeriodicRead(model, "resources", RELOAD_SECONDS)

    def offer_resources_of(self, device_id: str | None, name: str) -> None:
        """Offer the resources of this device. If the device id is ``None``, offer no resources."""
        if device_id != self._device_id:
            self._device_id, self._name, self._device = device_id, name, None
            # Without a device, load() does not replace the read of the earlier device.
            self._read.cancel()
            self.load()

    def load(self) -> None:
        """Read the device from the mirror."""
        device_id = self._device_id
        if device_id is not None:
            action = f"Reading the resources of {self._name}"
            self._read.start(action, lambda: self._model.client.get_device(device_id), self._accept)

    def receive(self, events: Iterable[Event]) -> None:
        """Schedule a read of the device if one of its values has changed."""
        if any(event.device_id == self._device_id and event.path for event in events):
            self._read.within(RELOAD_AFTER_EVENT_SECONDS)

    def tick(self) -> None:
        """Read the device again if a read is due."""
        if self._read.is_due:
            self.load()

    @property
    def paths(self) -> list[str]:
        """The resources of the device that may be writable, with their names."""
        known = self._device.resources if self._device else {}
        return [path_text(path) for path in sorted(filter(_may_be_writable, known), key=_path_order)]

    @property
    def paths_text(self) -> str:
        """The name of the resource, or a sentence about the listed resources."""
        if self.path:
            definition = lookup(self.path)
            return definition.label if definition else ""
        if self._device is not None:
            return f"the list has the resources of {self._name} that may be writable"
        return f"reading the resources of {self._name} …" if self._device_id else "pick a device to see its resources"

    def choose_path(self, path: str) -> None:
        """Choose this resource. The input is set to the current value of the resource, if it is known.

        Args:
            path: The path, optionally followed by its name as in the list.
        """
        chosen = path.partition(" · ")[0].strip()
        if chosen != self.path:
            self.path = chosen
            self.entry, self._is_untouched = form_of(chosen).initial, True
            self._apply_device()
            self._model.changed()

    def enter(self, entry: Entry) -> None:
        """Set the content of the input."""
        if (entry, type(entry)) != (self.entry, type(self.entry)):
            self.entry, self._is_untouched = entry, False
            self._model.changed()

    def read(self) -> PythonValue:
        """Return the value that was entered.

        Raises:
            InvalidValue: The input is not a valid value of the resource.
        """
        return read_entry(self.entry, self.path)

    @property
    def path_problem(self) -> str:
        """The problem with the path. It is empty if the path is valid."""
        try:
            if self.path and parse_path(self.path).resource_id is None:
                return f"{self.path} is not a resource path; enter object, instance and resource, such as /3311/0/5851"
        except ValueError as error:
            return str(error)
        if self.path and not _may_be_writable(self.path):
            return f"{path_text(self.path)} cannot be written; choose another resource"
        return ""

    @property
    def value_problem(self) -> str:
        """The problem with the value. It is empty if the value is valid, or if no resource is chosen."""
        if not self.path or self.path_problem:
            return ""
        try:
            self.read()
        except InvalidValue as error:
            return str(error)
        return ""

    @property
    def problem(self) -> str:
        """The problem with the input. An empty value does not count as a problem yet."""
        return self.path_problem or (self.value_problem if self.entry else "")

    @property
    def text(self) -> str:
        """A sentence that describes the valid input and the device's current value."""
        if self._device is not None and self._resource is None and self.path:
            return f"{self._name} has no resource {self.path}; a preview shows which devices have it. {self.form.hint}"
        return " · ".join(filter(None, (self.form.hint, self._device_text)))

    @property
    def _resource(self) -> Resource | None:
        return self._device.resources.get(self.path) if self._device else None

    @property
    def _device_text(self) -> str:
        """A sentence with the value that the device last reported, and any value that it accepted after that report."""
        resource = self._resource
        if resource is None:
            return ""
        reported, desired = resource.reported, resource.desired
        phrases = []
        if reported is not None:
            at = f" at {utc_text(reported.reported_at)}" if reported.reported_at else ""
            phrases.append(f"{self._name} last reported {format_value(reported.value, self.form.unit)}{at}")
        if desired is not None and desired.status is DesiredStatus.SUCCESS and not resource.is_reported_after_write:
            subject = "" if phrases else f"{self._name} "
            phrases.append(f"{subject}accepted {format_value(desired.value, self.form.unit)} since")
        return ", ".join(phrases)

    def _accept(self, device: DeviceObject) -> None:
        self._device = device
        self._apply_device()

    def _apply_device(self) -> None:
        """Set the form from the device. The content of the input is also set, unless the user has changed it."""
        resource = self._resource
        self.form = form_of(self.path, resource.unit if resource else "")
        if self._is_untouched and resource is not None and resource.reported is not None:
            self.entry, self._is_untouched = entry_of(self.form, resource.reported.value), False


def path_text(path: str) -> str:
    """Return a path together with its name in the object definitions."""
    definition = lookup(path)
    return f"{path} · {definition.label}" if definition else path


def _may_be_writable(path: str) -> bool:
    definition = lookup(path)
    return definition is None or "W" in definition.access


def _path_order(path: str) -> list[int]:
    return [int(number) for number in path.split("/")[1:]]
