"""Which resource is to be written, and with what value."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from mirror_sdk import _arguments
from mirror_sdk._client import MirrorClient
from mirror_sdk.device import DeviceObject
from mirror_sdk.errors import InvalidValue
from mirror_sdk.events import Event
from mirror_sdk.object_table import lookup
from mirror_sdk.resource import Resource
from mirror_sdk.values import PythonValue
from mirror_sdk.widgets.models.calls import Run
from mirror_sdk.widgets.models.notices import Notices
from mirror_sdk.widgets.models.reload import Reload
from mirror_sdk.widgets.models.wording import value_text
from mirror_sdk.widgets.models.write_inputs import Entry, InputForm, entry_of, form_of, read_entry
from mirror_sdk.wire.device_object import DesiredStatus
from mirror_sdk.wire.paths import parse_path

RELOAD_SECONDS = 10.0
"""What others write, no event tells."""
RELOAD_AFTER_EVENT_SECONDS = 0.5


class ValueInput:
    """A resource, and a value for it as it is entered.

    Args:
        client: The mirror; the resources of a device are read from it, and again as they change.
        path: The resource, where it is known at first.
        run: Makes the client calls.
        notices: Told of what went wrong.
        changed: Called when something is to be shown anew.
        clock: Seconds, for how often the device is looked at again.

    Attributes:
        path: The resource; empty for none.
        form: How a value of the resource is entered.
        entry: What was entered. Nothing but :meth:`enter` and another resource changes it, once it is there.
    """

    def __init__(
        self,
        client: MirrorClient,
        path: str,
        run: Run,
        *,
        notices: Notices,
        changed: Callable[[], object],
        clock: Callable[[], float],
    ) -> None:
        self.path = _arguments.text("path", path).strip()
        self.form: InputForm = form_of(self.path)
        self.entry: Entry = self.form.initial
        self._client = client
        self._run = run
        self._notices = notices
        self._changed = changed
        self._is_to_be_filled = True
        self._device_id: str | None = None
        self._name = ""
        self._mirrored: DeviceObject | None = None
        self._reading = Reload(clock, RELOAD_SECONDS)

    def look_at(self, device_id: str | None, name: str) -> None:
        """Offer the resources of this device."""
        if device_id != self._device_id:
            self._device_id, self._name, self._mirrored = device_id, name, None
            self.load()

    def load(self) -> None:
        """Read what the device has."""
        # Also for no device: what is still to come of another one is not for it.
        device_id, number = self._device_id, self._reading.begin()
        if device_id is None:
            return
        self._run(
            lambda: self._client.get_device(device_id),
            lambda mirrored: self._took(number, mirrored),
            lambda error: self._failed(number, error),
        )

    def take(self, events: Iterable[Event]) -> None:
        """Read the device again soon where something came from it."""
        if any(event.device_id == self._device_id and event.path for event in events):
            self._reading.within(RELOAD_AFTER_EVENT_SECONDS)

    def tick(self) -> None:
        """Read the device again where it is time to."""
        if self._reading.is_due:
            self.load()

    @property
    def paths(self) -> list[str]:
        """The resources to choose from, with their names: those of the device that may be writable."""
        known = self._mirrored.resources if self._mirrored else {}
        found = {path for path in known if _may_be_written(path)}
        return [path_text(path) for path in sorted(found, key=_path_order)]

    @property
    def paths_text(self) -> str:
        """What the resource is called; without one, whose can be chosen."""
        if self.path:
            definition = lookup(self.path)
            return definition.label if definition else ""
        if self._mirrored is not None:
            return f"listed is what {self._name} has and may take"
        return f"reading the resources of {self._name} …" if self._device_id else "pick a device to see its resources"

    def choose_path(self, path: str) -> None:
        """Write to this resource; the entry becomes the value it has, where that is known.

        Args:
            path: The path, also with what the object table calls it behind, as it is listed.
        """
        wanted = path.partition(" · ")[0].strip()
        if wanted != self.path:
            self.path = wanted
            self.form = form_of(wanted)
            self.entry, self._is_to_be_filled = self.form.initial, True
            self._fit()
            self._changed()

    def enter(self, entry: Entry) -> None:
        """What the input holds now."""
        if (entry, type(entry)) != (self.entry, type(self.entry)):
            self.entry, self._is_to_be_filled = entry, False
            self._changed()

    def read(self) -> PythonValue:
        """The value that was entered.

        Raises:
            InvalidValue: It is none for the resource.
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
        if self.path and not _may_be_written(self.path):
            return f"{path_text(self.path)} cannot be written; choose another resource"
        return ""

    @property
    def value_problem(self) -> str:
        """What is wrong with the value; empty where nothing is, or where there is no resource for it."""
        if not self.path or self.path_problem:
            return ""
        try:
            self.read()
        except InvalidValue as error:
            return str(error)
        return ""

    @property
    def problem(self) -> str:
        """What is wrong with the input; an input that is still empty needs no reproach."""
        return self.path_problem or (self.value_problem if self.entry else "")

    @property
    def text(self) -> str:
        """What the input takes, and what the device has."""
        if self._mirrored is not None and self._resource is None and self.path:
            return f"{self._name} has no resource {self.path}; a preview tells which device has. {self.form.hint}"
        return " · ".join(filter(None, (self.form.hint, self._had_text)))

    @property
    def _resource(self) -> Resource | None:
        return self._mirrored.resources.get(self.path) if self._mirrored else None

    @property
    def _had_text(self) -> str:
        """What the device last reported, and what it took since."""
        resource = self._resource
        reported, desired = (resource.reported, resource.desired) if resource else (None, None)
        parts = []
        if reported is not None:
            at = f" at {reported.reported_at:%Y-%m-%d %H:%M:%S} UTC" if reported.reported_at else ""
            parts.append(f"{self._name} last reported {value_text(reported.value, self.form.unit)}{at}")
        if desired is not None and desired.status is DesiredStatus.SUCCESS and not self._is_reported_since:
            parts.append(f"{'' if parts else f'{self._name} '}took {value_text(desired.value, self.form.unit)} since")
        return ", ".join(parts)

    @property
    def _is_reported_since(self) -> bool:
        return self._resource is not None and bool(self._resource.is_reported_after_write)

    def _fit(self) -> None:
        """Have the form and the first entry of what the device has."""
        resource = self._resource
        self.form = form_of(self.path, resource.unit if resource else "")
        if self._is_to_be_filled and resource is not None and resource.reported is not None:
            self.entry, self._is_to_be_filled = entry_of(self.form, resource.reported.value), False

    def _took(self, number: int, mirrored: DeviceObject) -> None:
        if not self._reading.end(number):
            return
        is_known = self._mirrored is not None and self._mirrored.resources == mirrored.resources
        if not is_known or "resources" in self._notices:
            self._mirrored = mirrored
            self._fit()
            self._notices.clear("resources")
            self._changed()

    def _failed(self, number: int, error: Exception) -> None:
        if self._reading.end(number) and self._notices.put(
            "resources", f"Reading the resources of {self._name}", error
        ):
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
