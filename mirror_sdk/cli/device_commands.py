"""The commands for a single device, and the list of devices."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import click

from mirror_sdk._formatting import visible_line
from mirror_sdk.cli.arguments import (
    ValueCommand,
    connect,
    device_argument,
    device_option,
    expiry_option,
    limit_option,
    path_argument,
    patterns_option,
    revision_option,
    state_option,
    timeout_option,
)
from mirror_sdk.cli.group import main
from mirror_sdk.cli.output import OutputFormat, Row, attribute_rows, form_options, one_of, show
from mirror_sdk.errors import InvalidValue, UnknownQuery
from mirror_sdk.resource import Resource
from mirror_sdk.values import PythonValue, Value, decode_many, parse_value, plain_text
from mirror_sdk.wire.device_events import EVENT_TYPES
from mirror_sdk.wire.device_queries import DeviceQuery
from mirror_sdk.wire.directory import ATTRIBUTE_FILTER
from mirror_sdk.wire.paths import matches

_DEVICE = ["id", "endpoint_name", "endpoint_type", "state", "queue_mode", "updated_at", "name"]
_CONNECTION = ["protocol", "lwm2m_version", "binding", "reachable", "lifetime_seconds", "last_contact_at", "address"]
_EVENT = ["changed_at", "device_id", "endpoint_name", "event", "state_change"]
_RULE = ["endpoint_name", "endpoint_type", "resource_path"]
_REQUEST = ["async_response_id", "device_id", "method", "uri", "state", "placed_at", "expires_at", "attempts"]
_RESOURCE: dict[str, Callable[[Resource], object]] = {
    "path": lambda resource: resource.path,
    "label": lambda resource: resource.label,
    "reported": lambda resource: resource.reported and plain_text(resource.reported.value),
    "reported_at": lambda resource: resource.reported and resource.reported.reported_at,
    "desired": lambda resource: resource.desired and plain_text(resource.desired.value),
    "desired_at": lambda resource: resource.desired and resource.desired.desired_at,
    "status": lambda resource: resource.desired and resource.desired.status and resource.desired.status.name.lower(),
    "desired_revision": lambda resource: resource.desired and resource.desired.revision,
    "acknowledged_at": lambda resource: resource.desired and resource.desired.acknowledged_at,
    "acknowledged_by": lambda resource: resource.desired and resource.desired.acknowledged_by,
    "subscribed": lambda resource: resource.subscribed,
}
_FOR_PROGRAMS = {"desired_revision", "acknowledged_at", "acknowledged_by"}


def _attribute(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise click.BadParameter(f"{text!r} is not an attribute with its value; write one like room=B12")
    return name, value


@main.command()
@state_option
@click.option("--type", "endpoint_type", help="Only devices of this endpoint type.")
@click.option("--query", metavar="NAME", help="Only devices that match the saved query with this name.")
@click.option(
    "--where",
    type=_attribute,
    multiple=True,
    metavar="NAME=VALUE",
    help="Only devices with this custom attribute, such as room=B12. Can be repeated.",
)
@limit_option(help="Show at most this many devices.")
@click.option(
    "--connections", is_flag=True, help="Also show how each device is connected. This sends one request per device."
)
@form_options
def devices(
    state: str | None,
    endpoint_type: str | None,
    query: str | None,
    where: Sequence[tuple[str, str]],
    limit: int | None,
    connections: bool,
    form: OutputFormat,
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
        try:
            found = client.devices.list(
                state=state, endpoint_type=endpoint_type, filters=filters, query=query, limit=limit
            )
        except UnknownQuery as error:
            raise _unknown_query(query, client.devices.queries.list()) from error
        rows = attribute_rows(found, _DEVICE)
        if connections:
            each = attribute_rows(map(client.devices.connection, found), _CONNECTION)
            rows = [row | connection for row, connection in zip(rows, each, strict=True)]
    if state is None and endpoint_type is None and query is None and not where:
        if_empty = (
            "the mirror has no devices yet; 'mirror-device' imitates one, and 'mirror-server demo' simulates twelve"
        )
    else:
        if_empty = "no device matches; without options 'mirror devices' lists all"
    show(rows, [*_DEVICE, *_CONNECTION] if connections else _DEVICE, form, if_empty)


def _unknown_query(name: str | None, saved: Sequence[DeviceQuery]) -> click.ClickException:
    """Return the error for a name without a saved query.

    The message lists the saved queries, because no command does.
    """
    names = ", ".join(visible_line(repr(query.name)) for query in saved)
    cure = f"saved queries: {names}" if names else "there are no saved queries; use --where, --type or --state"
    return click.ClickException(f"no saved query is named {visible_line(repr(name))}; {cure}")


@main.command("device-events")
@device_option("names", multiple=True, help="Only events of this device. Can be repeated.")
@click.option(
    "--type",
    "event_types",
    type=click.Choice(EVENT_TYPES),
    multiple=True,
    help="Only events of this type. Can be repeated.",
)
@limit_option(help="Show at most this many events, the newest ones.")
@form_options
def device_events(names: Sequence[str], event_types: Sequence[str], limit: int | None, form: OutputFormat) -> None:
    """List registrations and deregistrations of devices, oldest first.

    The server stores these events for a limited time, by default 30 days.

    \b
      mirror device-events --device light-01 --limit 20
      mirror device-events --type deregistration --type expired --csv
    """  # noqa: D301 - click wants the character, not its escape
    with connect() as client:
        found = client.devices.events(names or None, event_types=event_types or None, limit=limit)
    if_empty = "no device has registered or deregistered yet"
    if names or event_types:
        if_empty = "no event matches; without options 'mirror device-events' lists all"
    rows = [
        {
            "changed_at": event.date_time,
            "device_id": event.device_id,
            "endpoint_name": event.data and event.data.endpoint_name,
            "event": event.event_type,
            "state_change": event.state_change,
        }
        for event in found
    ]
    show(rows, _EVENT, form, if_empty)


@main.command()
@device_argument
@patterns_option
@form_options
def get(device: str, paths: Sequence[str], form: OutputFormat) -> None:
    """Show the last reported and desired values of a DEVICE, without contacting the device.

    \b
      mirror get light-01 --path '/3311/*'
    """  # noqa: D301 - click wants the character, not its escape
    with connect() as client:
        found = client.get_device(device)
    if_empty = f"{device} has no such resource; 'mirror get {device}' lists its resources"
    if not paths:
        if_empty = f"{device} has reported no resources yet; a device reports them when it registers"
    rows = [
        {name: read_column(resource) for name, read_column in _RESOURCE.items()}
        for resource in found.resources.values()
        if not paths or any(matches(pattern, resource.path) for pattern in paths)
    ]
    show(rows, [name for name in _RESOURCE if form or name not in _FOR_PROGRAMS], form, if_empty)


@main.command()
@device_argument
@path_argument
@timeout_option
@expiry_option
@form_options
def read(device: str, path: str, timeout: float | None, expiry_seconds: int | None, form: OutputFormat) -> None:
    """Read the value at PATH from a DEVICE now, and wait for its response.

    To see the last reported value without contacting the device, use 'mirror get'.
    If the device is a real one, PATH can also be an object instance, such as /3303/0. The command then reads all of its
    resources.

    \b
      mirror read weather-station-01 /3303/0/5700
      mirror read my-sensor /3303/0
      mirror read weather-station-01 /3303/0/5700 --json
    """  # noqa: D301 - click wants the character, not its escape
    with connect() as client, _request_continues():
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
@click.option("--allow-read-only", is_flag=True, help="Also write a resource that is declared read-only.")
@revision_option(
    help="Only write if the desired value still has this revision, which 'mirror get --json' shows. 0 stands for no"
    " desired value."
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
    """Write a VALUE to PATH of a DEVICE, and wait until the device has accepted it.

    If VALUE begins with a dash and is not a number, put -- before it as a separate word.

    \b
      mirror write light-01 /3311/0/5850 on
      mirror write freezer-01 /3308/0/5900 -18.5
      mirror write light-01 /3311/0/5851 40 --if-match 17
      mirror write light-01 /3/0/15 -- -none-
    """  # noqa: D301 - click wants the character, not its escape
    typed = _typed(value, path)
    with connect() as client, _request_continues():
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
    """Execute the resource at PATH of a DEVICE, with an optional ARGUMENT, and wait until the device has executed it.

    If ARGUMENT begins with a dash and is not a number, put -- before it as a separate word.

    \b
      mirror execute light-01 /3/0/4
      mirror execute my-device /33000/0/1 "0='fast'"
    """  # noqa: D301 - click wants the character, not its escape
    with connect() as client, _request_continues():
        request = client.requests.begin_execute(device, path, argument, expiry_seconds=expiry_seconds)
        request.result(timeout)


@main.command()
@device_argument
@path_argument
@click.option(
    "--by", metavar="TEXT", help="Name of the person who acknowledges it. By default the name of the access key."
)
@revision_option(
    help="Only acknowledge the failed write with this desired revision, which 'mirror drift --json' and"
    " 'mirror get --json' show."
)
def acknowledge(device: str, path: str, by: str | None, if_match: int | None) -> None:
    """Acknowledge the failed write at PATH of a DEVICE, so that it no longer counts as failed.

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
    """Subscribe to the value at PATH of a DEVICE, so that its changes arrive as events.

    'mirror watch' shows the events. To subscribe to many devices, use 'mirror rules'.

    \b
      mirror subscribe light-01 /3311/0/5851
      mirror subscribe light-01 /3311/0/5851 --end
    """  # noqa: D301 - click wants the character, not its escape
    with connect() as client:
        act = client.unsubscribe if end else client.subscribe
        act(device, path)


@main.command()
@one_of(
    "change",
    add="Add the rule that --device, --type and --path describe.",
    remove="Remove the rule with exactly these --device, --type and --path.",
)
@click.option("--device", metavar="PATTERN", help="Only devices with this id or endpoint name, such as 'light-*'.")
@click.option("--type", "endpoint_type", metavar="PATTERN", help="Only devices of this endpoint type.")
@patterns_option
@form_options
def rules(
    change: str | None, device: str | None, endpoint_type: str | None, paths: Sequence[str], form: OutputFormat
) -> None:
    """List, add or remove the presubscription rules of this key, which all users of the key share.

    A rule subscribes to resources of registered devices, and of devices that register later. --add and --remove leave
    all other rules unchanged. A rule that you add takes effect at once.

    \b
      mirror rules --add --type Light --path '/3311/*'
      mirror rules --remove --type Light --path '/3311/*'
      mirror rules --json
    """  # noqa: D301 - click wants the character, not its escape
    if "" in {device, endpoint_type}:
        # An unset variable results in an empty word. Without this check, the rule would apply to all devices.
        raise click.BadParameter(
            "the value is empty; '*' matches all", param_hint="--device" if device == "" else "--type"
        )
    members = {"endpoint_name": device, "endpoint_type": endpoint_type, "resource_path": list(paths)}
    rule = {name: value for name, value in members.items() if value}
    if (change is None) == bool(rule):
        raise click.UsageError("pass --add or --remove with some of --device, --type and --path; '*' matches all")
    with connect() as client:
        if change == "add":
            client.subscriptions.rules.add([rule], apply_now=True)
        elif change == "remove" and not client.subscriptions.rules.remove([rule]):
            raise click.ClickException(
                "this key has no rule with exactly these --device, --type and --path; 'mirror rules' lists its rules"
            )
        found = client.subscriptions.rules.list()
    if_empty = "this key has no rules; 'mirror rules --add' with --device, --type or --path adds one"
    show(attribute_rows(found, _RULE), _RULE, form, if_empty)


@main.command()
@form_options
def requests(form: OutputFormat) -> None:
    """List the requests of this key that have no response yet.

    \b
      mirror requests --json
    """  # noqa: D301 - click wants the character, not its escape
    with connect() as client:
        waiting = client.requests.list()
    show(attribute_rows(waiting, _REQUEST), _REQUEST, form, "no request of this key waits for a response")


@contextmanager
def _request_continues() -> Iterator[None]:
    """Print after Ctrl-C that the request is not canceled."""
    try:
        yield
    except KeyboardInterrupt:
        click.echo(
            "the request continues, and the device may carry it out; 'mirror requests' lists waiting requests", err=True
        )
        raise


def _typed(text: str, path: str) -> PythonValue:
    # A word that is not valid text is reported in the same way as for any other argument, not as an invalid value.
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
