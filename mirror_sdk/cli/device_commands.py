"""The commands about one device, and the list of devices."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from mirror_sdk.cli.arguments import (
    DeviceName,
    ValueCommand,
    connect,
    device_argument,
    expiry_option,
    path_argument,
    patterns_option,
    timeout_option,
)
from mirror_sdk.cli.group import main
from mirror_sdk.cli.output import Form, Row, form_options, show
from mirror_sdk.device import DeviceObject
from mirror_sdk.errors import InvalidValue
from mirror_sdk.resource import Resource
from mirror_sdk.values import PythonValue, Value, decode_many, parse_value, plain_text
from mirror_sdk.wire.device_events import EVENT_TYPES, DeviceEvent
from mirror_sdk.wire.directory import ATTRIBUTE_FILTER
from mirror_sdk.wire.paths import matches

if TYPE_CHECKING:
    _PairType = click.ParamType[tuple[str, str]]
else:
    # Older versions of click have no type parameter here.
    _PairType = click.ParamType


class _Attribute(_PairType):
    """A custom attribute and its value."""

    name = "name=value"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        """The name and the value."""
        if isinstance(value, tuple):
            return value
        name, equals, wanted = value.partition("=")
        if not name or not equals:
            self.fail(f"{value!r} is no attribute with its value; write one like room=B12", param, ctx)
        return name, wanted


@main.command()
@click.option("--state", type=click.Choice(["registered", "deregistered"]), help="Only those in this state.")
@click.option("--type", "endpoint_type", help="Only those of this endpoint type.")
@click.option("--query", metavar="NAME", help="Only those that the filter saved under this name selects.")
@click.option(
    "--where",
    type=_Attribute(),
    multiple=True,
    help="Only those with this custom attribute, such as room=B12; may be given several times.",
)
@click.option("--limit", type=click.IntRange(min=1), help="How many at most.")
@click.option("--connections", is_flag=True, help="Also how each is connected: a request for each device.")
@form_options
def devices(
    state: str | None,
    endpoint_type: str | None,
    query: str | None,
    where: Sequence[tuple[str, str]],
    limit: int | None,
    connections: bool,
    form: Form,
) -> None:
    """List the devices.

    \b
      mirror devices --state registered --type Light --csv
      mirror devices --query lights
      mirror devices --where room=B12
      mirror devices --connections --limit 20
    """  # noqa: D301 - click wants the character, not its escape
    with connect() as client:
        filters = {f"{ATTRIBUTE_FILTER}__{name}": value for name, value in where}
        found = client.devices.list(state=state, endpoint_type=endpoint_type, filters=filters, query=query, limit=limit)
        rows: list[dict[str, object]] = [{name: getattr(device, name) for name in _DEVICE} for device in found]
        if connections:
            for row, device in zip(rows, found, strict=True):
                connection = client.devices.connection(device)
                row |= {name: getattr(connection, name) for name in _CONNECTION}
    if state is None and endpoint_type is None and query is None and not where:
        nothing = "the mirror knows no device yet; 'mirror-device' plays one, 'mirror-server demo' has twelve"
    else:
        nothing = "no device is like that; without options 'mirror devices' lists all"
    show(rows, [*_DEVICE, *_CONNECTION] if connections else _DEVICE, form, nothing)


@main.command("device-events")
@click.option(
    "--device", "names", type=DeviceName(), multiple=True, help="Only of this one; may be given several times."
)
@click.option(
    "--type",
    "event_types",
    type=click.Choice(EVENT_TYPES),
    multiple=True,
    help="Only these; may be given several times.",
)
@click.option("--limit", type=click.IntRange(min=1), help="How many at most, the newest.")
@form_options
def device_events(names: Sequence[str], event_types: Sequence[str], limit: int | None, form: Form) -> None:
    """List when devices registered and left, the oldest first, as far back as the service keeps it.

    \b
      mirror device-events --device light-01 --limit 20
      mirror device-events --type deregistration --type expired --csv
    """  # noqa: D301 - click wants the character, not its escape
    with connect() as client:
        found = client.devices.events(names or None, event_types=event_types or None, limit=limit)
    nothing = "no device has registered yet, or left"
    if names or event_types:
        nothing = "no such event is kept; without options 'mirror device-events' lists all there are"
    show((_event_row(event) for event in found), _EVENT, form, nothing)


@main.command()
@device_argument
@patterns_option
@form_options
def get(device: str, paths: Sequence[str], form: Form) -> None:
    """Show the last reported and the last desired values of a DEVICE, without asking it.

    \b
      mirror get light-01 --path '/3311/*'
    """  # noqa: D301 - click wants the character, not its escape
    with connect() as client:
        found = client.get_device(device)
    nothing = f"{device} has no such resource; 'mirror get {device}' lists those it has"
    if not paths:
        nothing = f"{device} has told of no resource yet; it does when it registers"
    show(_resource_rows(found, paths), list(_COLUMNS) if form else _FOR_PEOPLE, form, nothing)


@main.command()
@device_argument
@path_argument
@timeout_option
@expiry_option
@form_options
def read(device: str, path: str, timeout: float | None, expiry_seconds: int | None, form: Form) -> None:
    """Ask a DEVICE for the value at PATH now; a real device also for each value of an object instance.

    \b
      mirror read weather-station-01 /3303/0/5700
      mirror read my-sensor /3303/0
      mirror read weather-station-01 /3303/0/5700 --json
    """  # noqa: D301 - click wants the character, not its escape
    with connect() as client, _not_taken_back():
        request = client.requests.begin_read(device, path, expiry_seconds=expiry_seconds)
        value = request.result(timeout)
    found = decode_many(value.raw, value.content_type, path)
    if form is None and found.keys() <= {path}:
        click.echo(str(value))
        return
    rows = [_value_row(request.device_id, each, one) for each, one in (found or {path: value}).items()]
    show(rows, ["path", "value"] if form is None else list(rows[0]), form)


@main.command(cls=ValueCommand)
@device_argument
@path_argument
@click.argument("value")
@timeout_option
@expiry_option
@click.option("--allow-read-only", is_flag=True, help="Also what is declared read-only, for a device that takes it.")
@click.option(
    "--if-match",
    type=click.IntRange(min=0),
    metavar="REVISION",
    help="Only while the desired value has this revision, which 'mirror get --json' shows; 0 where there is none.",
)
def write(
    device: str,
    path: str,
    value: str,
    timeout: float | None,
    expiry_seconds: int | None,
    allow_read_only: bool,
    if_match: int | None,
) -> None:
    """Have a DEVICE take a VALUE at PATH; done when it has.

    A VALUE that begins with a dash and is no number goes behind two dashes.

    \b
      mirror write light-01 /3311/0/5850 on
      mirror write freezer-01 /3308/0/5900 -18.5
      mirror write light-01 /3311/0/5851 40 --if-match 17
      mirror write light-01 /3/0/15 -- -none-
    """  # noqa: D301 - click wants the character, not its escape
    typed = _typed(value, path)
    with connect() as client, _not_taken_back():
        request = client.requests.begin_write(
            device, path, typed, expiry_seconds=expiry_seconds, allow_read_only=allow_read_only, if_match=if_match
        )
        request.result(timeout)


@main.command(cls=ValueCommand)
@device_argument
@path_argument
@click.argument("argument", required=False)
@timeout_option
@expiry_option
def execute(device: str, path: str, argument: str | None, timeout: float | None, expiry_seconds: int | None) -> None:
    """Have a DEVICE execute the resource at PATH, with an ARGUMENT where it takes one; done when it has.

    An ARGUMENT that begins with a dash and is no number goes behind two dashes.

    \b
      mirror execute light-01 /3/0/4
      mirror execute my-device /33000/0/1 "0='fast'"
    """  # noqa: D301 - click wants the character, not its escape
    with connect() as client, _not_taken_back():
        request = client.requests.begin_execute(device, path, argument, expiry_seconds=expiry_seconds)
        request.result(timeout)


@main.command()
@device_argument
@path_argument
@click.option("--by", metavar="TEXT", help="Who acknowledges it; the name of the access key by default.")
@click.option(
    "--if-match",
    type=click.IntRange(min=0),
    metavar="REVISION",
    help="Only the failed write with this desired revision, which 'mirror drift --json' and 'mirror get --json' show.",
)
def acknowledge(device: str, path: str, by: str | None, if_match: int | None) -> None:
    """Acknowledge the failed write at PATH of a DEVICE, so that it does not count as failed any more.

    \b
      mirror acknowledge light-01 /3311/0/5851 --by 'night shift'
      mirror acknowledge light-01 /3311/0/5851 --if-match 17
    """  # noqa: D301 - click wants the character, not its escape
    with connect() as client:
        client.requests.acknowledge_failed_write(device, path, by=by, if_match=if_match)


@main.command()
@device_argument
@path_argument
@click.option("--end", is_flag=True, help="End the subscription instead.")
def subscribe(device: str, path: str, end: bool) -> None:
    """Have changes of the value at PATH of a DEVICE reported from now on.

    \b
      mirror subscribe light-01 /3311/0/5851
      mirror subscribe light-01 /3311/0/5851 --end
    """  # noqa: D301 - click wants the character, not its escape
    with connect() as client:
        act = client.unsubscribe if end else client.subscribe
        act(device, path)


@main.command()
@click.option("--add", "change", flag_value="add", help="Add the rule that --device, --type and --path make.")
@click.option("--remove", "change", flag_value="remove", help="Take this rule away instead.")
@click.option("--device", metavar="PATTERN", help="Only devices with this id or endpoint name, such as 'light-*'.")
@click.option("--type", "endpoint_type", metavar="PATTERN", help="Only devices of this endpoint type.")
@patterns_option
@form_options
def rules(change: str | None, device: str | None, endpoint_type: str | None, paths: Sequence[str], form: Form) -> None:
    """List, add or remove the presubscription rules of this key, which all that use it share.

    A rule subscribes resources of the devices there are and of those that register later. The other rules stay.

    \b
      mirror rules --add --type Light --path '/3311/*'
      mirror rules --remove --type Light --path '/3311/*'
      mirror rules --json
    """  # noqa: D301 - click wants the character, not its escape
    if "" in {device, endpoint_type}:
        # As of a variable that is not set; without a word on it the rule would be one for all.
        raise click.BadParameter("it is empty; '*' takes all", param_hint="--device" if device == "" else "--type")
    given = {"endpoint_name": device, "endpoint_type": endpoint_type, "resource_path": list(paths)}
    rule = {name: value for name, value in given.items() if value}
    if (change is None) == bool(rule):
        raise click.UsageError("a rule is --add or --remove with some of --device, --type and --path; '*' takes all")
    with connect() as client:
        if change == "add":
            client.subscriptions.rules.add([rule], apply_now=True)
        elif change == "remove" and not client.subscriptions.rules.remove([rule]):
            raise click.ClickException("this key has no such rule; 'mirror rules' lists those it has")
        found = client.subscriptions.rules.list()
    columns = ["endpoint_name", "endpoint_type", "resource_path"]
    nothing = "this key has no rule; 'mirror rules --add' with --device, --type or --path makes one"
    show(({name: getattr(rule, name) for name in columns} for rule in found), columns, form, nothing)


@main.command()
@form_options
def requests(form: Form) -> None:
    """List the requests of this key that have no answer yet.

    \b
      mirror requests --json
    """  # noqa: D301 - click wants the character, not its escape
    with connect() as client:
        waiting = client.requests.list()
    columns = ["async_response_id", "device_id", "method", "uri", "state", "placed_at", "expires_at", "attempts"]
    nothing = "no request of this key waits for an answer"
    show(({name: getattr(request, name) for name in columns} for request in waiting), columns, form, nothing)


@contextmanager
def _not_taken_back() -> Iterator[None]:
    """Whoever does not wait for a device is told that the request is not taken back by that."""
    try:
        yield
    except KeyboardInterrupt:
        click.echo("what was asked goes on, and the device may do it; 'mirror requests' shows what waits", err=True)
        raise


def _event_row(event: DeviceEvent) -> Row:
    return {
        "changed_at": event.date_time,
        "device_id": event.device_id,
        "endpoint_name": None if event.data is None else event.data.endpoint_name,
        "event": event.event_type,
        "state_change": event.state_change,
    }


_EVENT = ["changed_at", "device_id", "endpoint_name", "event", "state_change"]
_DEVICE = ["id", "endpoint_name", "endpoint_type", "state", "queue_mode", "updated_at", "name"]
_CONNECTION = ["protocol", "lwm2m_version", "binding", "reachable", "lifetime_seconds", "last_contact_at", "address"]


def _typed(text: str, path: str) -> PythonValue:
    # A word of a shell that is no text is told as any other is, not as a value that is wrong.
    text.encode()
    try:
        return parse_value(text, path)
    except InvalidValue as error:
        raise click.BadParameter(str(error), param_hint="VALUE") from None


def _value_row(device_id: str, path: str, value: Value) -> Row:
    is_plain = isinstance(value.python, str | int | float)
    return {
        "device_id": device_id,
        "path": path,
        "kind": value.kind.value,
        "value": value.python if is_plain else plain_text(value),
    }


def _status_word(resource: Resource) -> str | None:
    status = resource.desired.status if resource.desired else None
    return None if status is None else status.name.lower()


_COLUMNS: dict[str, Callable[[Resource], object]] = {
    "path": lambda resource: resource.path,
    "label": lambda resource: resource.label,
    "reported": lambda resource: resource.reported and plain_text(resource.reported.value),
    "reported_at": lambda resource: resource.reported and resource.reported.reported_at,
    "desired": lambda resource: resource.desired and plain_text(resource.desired.value),
    "desired_at": lambda resource: resource.desired and resource.desired.desired_at,
    "status": _status_word,
    "desired_revision": lambda resource: resource.desired and resource.desired.revision,
    "acknowledged_at": lambda resource: resource.desired and resource.desired.acknowledged_at,
    "acknowledged_by": lambda resource: resource.desired and resource.desired.acknowledged_by,
    "subscribed": lambda resource: resource.subscribed,
}
_FOR_PEOPLE = [name for name in _COLUMNS if name not in {"desired_revision", "acknowledged_at", "acknowledged_by"}]


def _resource_rows(device: DeviceObject, patterns: Sequence[str]) -> Iterator[Row]:
    for resource in device.resources.values():
        if not patterns or any(matches(pattern, resource.path) for pattern in patterns):
            yield _resource_row(resource)


def _resource_row(resource: Resource) -> Row:
    return {name: read_column(resource) for name, read_column in _COLUMNS.items()}
