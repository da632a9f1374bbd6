"""The hooks with which extensions add routes, settings, storage and other features to the server.

The docstring of each hook says when it is called.
"""

from __future__ import annotations

import importlib
import pkgutil
import traceback
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from difflib import get_close_matches
from functools import cache
from importlib.metadata import entry_points, metadata
from importlib.util import find_spec
from inspect import isroutine, signature
from itertools import chain
from pathlib import Path
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

import pluggy

from mirror_server.config import Settings, option_name
from mirror_server.core.errors import CannotServe
from mirror_server.store.backend import LOCATIONS, redacted

if TYPE_CHECKING:
    import asyncio
    import socket
    from concurrent.futures import Future

    import uvicorn
    from flask import Blueprint, Response

    from mirror_sdk.wire.snapshot import Compression
    from mirror_server.core.commands import Command
    from mirror_server.core.timestamps import Instant
    from mirror_server.server import Services
    from mirror_server.service.commands import CommandSubmission
    from mirror_server.store.backend import Storage, Violation
    from mirror_server.store.change_listeners import FinishedWrite, RegistrationChange, ReportedChange
    from mirror_server.store.commands import CommandContext
    from mirror_server.store.conditions import Condition
    from mirror_server.store.database import Database
    from mirror_server.store.devices import DeviceRow
    from mirror_server.store.session import Session
    from mirror_server.views.description import Parameter, ResponseSpec
    from mirror_server.web.asgi_bridge import ASGIBridge

_PROJECT = "mirror_server"
_GROUP = "mirror_server.extensions"
SERVER = "the server"
"""The word for the server without its extensions in the errors of :func:`require_distinct`."""

specifies = pluggy.HookspecMarker(_PROJECT)
extends = pluggy.HookimplMarker(_PROJECT)
"""A decorator that marks a function or method of an extension as a hook."""


@specifies
def needs() -> Sequence[str]:  # type: ignore[empty-body]
    """Return the names of the Python modules from other packages that the extension needs.

    If one of them cannot be imported, the server runs without the extension. Commands that do not start a server, such
    as those that check or erase a database, still load the extension.
    """


@specifies
def settings() -> type:  # type: ignore[empty-body]
    """Return the frozen dataclass that declares the settings of the extension.

    Declare its fields with :func:`mirror_server.config.setting`. Each becomes a command-line option and an environment
    variable. The hook is called before the command line is parsed.
    """


@specifies
def commands() -> Mapping[str, Sequence[str]]:  # type: ignore[empty-body]
    """Return the modules that add commands to ``mirror-server``, each with the names of its commands.

    A module is imported when one of its commands is needed. It adds its commands during the import.
    """


@specifies
def help_topics() -> Mapping[str, str]:  # type: ignore[empty-body]
    """Return topics of ``mirror-server help``, each with the module whose docstring is the text of the topic.

    Use this hook in an extension without a folder ``manual``, such as a single module.
    """


@specifies
def storage() -> Storage:  # type: ignore[empty-body]
    """Return the tables of the extension.

    The hook is called when a database is opened. The name of the branch of migrations must differ from those of all
    other extensions.
    """


@specifies
def check_settings(settings: Settings) -> None:
    """Raise :class:`CannotServe` if the server cannot run with these settings.

    The hook is called before a server opens its database.
    """


@specifies
def configure_logging(settings: Settings) -> None:
    """Set up :mod:`logging` in the process of a serving command.

    The hook is called before anything is logged.
    """


@specifies
def shared_settings(settings: Settings) -> str:  # type: ignore[empty-body]
    """Return a phrase that names settings which all processes on one database must share, such as ``with --simulate``.

    An error message joins the phrases of all extensions with "and", and puts the clock setting last. Start a phrase
    with ``", "`` to put it after the clock. Return ``""`` to add nothing.
    """


@specifies
def build(services: Services) -> Sequence[object]:  # type: ignore[empty-body]
    """Build the objects of the extension for one server. :meth:`Services.part` finds each of them by its class.

    The hook is called after the core has been built and before anything runs.

    Raises:
        CannotServe: The server cannot start with its settings.
    """


@specifies
def lead() -> None:
    """Start the work of the leader.

    Of the processes on a database, one is the leader. It makes all decisions and stores their results. The hook is
    called before anything is stored, on the main thread or on the thread of the election.
    """


@specifies
def connect_devices() -> None:
    """Restore the connections to devices, and accept new ones.

    The hook is called after :func:`lead`.
    """


@specifies
def disconnect_devices() -> None:
    """Close the connections to devices. The stored data of the devices remains.

    The hook is called before :func:`resign`.
    """


@specifies
def started() -> None:
    """Start work that needs a running server. The hook is called when the server is ready."""


@specifies
def interrupted() -> None:
    """Prepare for an outage of the storage.

    Do not let any registration expire until :func:`resumed` is called. In the meantime the server cannot store updates,
    so devices cannot renew their registrations.
    """


@specifies
def resumed(session: Session, since: Instant) -> None:
    """Continue after an outage of the storage, or at the start of the server.

    Args:
        session: The current transaction.
        since: The time at which the outage began. Nothing could be stored after it.
    """


@specifies
def resync() -> None:
    """Bring everything up to date that other processes may have changed.

    The hook is called when this process may have missed signals from other processes.
    """


@specifies
def every_hour(now: Instant) -> None:
    """Delete data whose retention period has ended.

    Use several short transactions, because each of them delays all other writes.
    """


@specifies
def resign() -> None:
    """Stop the work of the leader.

    The hook is called when another process becomes the leader, and when the server stops. It may therefore be called
    twice.
    """


@specifies
def stop() -> None:
    """Stop the extension, because the server stops.

    The server still stores work that the extension submits to the database during this call.
    """


@specifies
def clock_advanced() -> None:
    """Apply the new time after a manual clock was advanced."""


@specifies
def values_reported(session: Session, batch: Sequence[ReportedChange]) -> None:
    """Process values that devices reported.

    The hook is called on the writer thread, in the transaction that stores the values. The server stores at most 2,000
    changes in one group, and a batch contains the values of one group. An exception rolls the group back. If no
    extension implements this hook, the server builds no batches.
    """


@specifies
def write_finished(session: Session, batch: Sequence[FinishedWrite]) -> None:
    """Process writes that succeeded or failed.

    The hook is called in the same way as :func:`values_reported`.
    """


@specifies
def registration_changed(session: Session, batch: Sequence[RegistrationChange]) -> None:
    """Process registrations that started, were updated or ended.

    The hook is called in the same way as :func:`values_reported`.
    """


@specifies
def devices_deleted(session: Session, device_ids: Sequence[str]) -> None:
    """Delete the data of devices that have not contacted the server for months.

    The hook is called in the transaction that deletes the rows of the devices, before it deletes them. If an operator
    erases a device, ``erase`` of the object that :func:`storage` returned is called instead.
    """


@specifies
def responses_added(
    session: Session, app_id: str, entries: Sequence[Mapping[str, Any]], first_seq: int, at: Instant
) -> None:
    """Process async responses that are appended to the log of an application.

    The hook is called in the same way as :func:`values_reported`.

    Args:
        session: The current transaction.
        app_id: The id of the application.
        entries: The responses.
        first_seq: The number of the first response in the log. The number of each further response is one higher than
            that of the response before it.
        at: The time at which the responses were appended.
    """


class Handling(NamedTuple):
    """The functions with which an extension handles a device request.

    Attributes:
        check: A function that is called in the transaction that queues the request. It is not called if the async-id
            of the request was used before. It may raise an :class:`~mirror_server.core.errors.ApiError`.
        respond: A function that returns the response to send instead of the server's 202 response. Its first argument
            is the future of the command. Its second argument is a function that returns the usual 202 response for a
            command, with additional members in the body.
        is_conditional: Whether ``check`` evaluates the header ``If-Match``. The server rejects a request with
            ``If-Match`` if no extension evaluates the header.
    """

    check: Callable[[Session, CommandContext], object] | None = None
    respond: Callable[[Future[Command], Callable[..., Response]], Response] | None = None
    is_conditional: bool = False


@specifies
def device_request(submission: CommandSubmission) -> Handling | None:
    """Return how the extension handles a device request, or ``None`` if the extension does not handle it.

    The hook is called in the view of each device request, before the request is queued.

    Raises:
        ApiError: The request is rejected.
    """


@specifies
def blueprints() -> Sequence[Blueprint]:  # type: ignore[empty-body]
    """Return the routes of the extension.

    The hook is called when the Flask app is created. Mark each view with :func:`mirror_server.views.requests.requires`.
    To add a view to the OpenAPI document, also mark it with :func:`mirror_server.views.description.described`.
    """


@specifies
def openapi_exclusions(settings: Settings) -> Sequence[str]:  # type: ignore[empty-body]
    """Return the path prefixes of routes that these settings disable, to exclude them from the OpenAPI document."""


@specifies
def extend_openapi(document: dict[str, Any]) -> None:
    """Change the OpenAPI document, for example to extend the descriptions of routes of other extensions."""


@specifies
def demo_settings() -> Mapping[str, Any]:  # type: ignore[empty-body]
    """Return values for settings that ``mirror-server demo`` uses, although the command has no options for them."""


@specifies
def device_address() -> str:  # type: ignore[empty-body]
    """Return a line with the addresses at which devices can reach the server.

    A serving command prints it when the server listens, before all other lines.
    """


@specifies
def announcements(services: Services, url: str, key: str | None) -> Sequence[str]:  # type: ignore[empty-body]
    """Return lines that a serving command prints when the server listens.

    Args:
        services: The server.
        url: The URL of the server.
        key: The new access key that ``mirror-server demo`` created, or ``None`` for other commands.
    """


@specifies
def configure_server(config: uvicorn.Config, bridge: ASGIBridge, services: Services) -> None:
    """Change the configuration of the HTTP server before the server is created.

    ``config.ws`` is an :data:`~mirror_server.web.serve.Upgrade`, a function that switches connections to other
    protocols. An extension that replaces ``config.http`` must call this function itself.
    """


@specifies(firstresult=True)
def accept(server: uvicorn.Server, sockets: Sequence[socket.socket]) -> list[asyncio.Server] | None:
    """Start accepting connections on the sockets, so that uvicorn does not do so itself.

    The hook is called on the event loop when the server starts to listen. Return the asyncio servers that accept the
    connections, or ``None`` to let uvicorn accept them.
    """


@specifies(firstresult=True)
def client_of(environ: dict[str, Any]) -> str | None:
    """Return an identifier of the client that sent a request. The server counts the wrong keys of each client.

    Without this hook, the address of the connection identifies the client.
    """


@specifies
def locations() -> Mapping[str, str]:  # type: ignore[empty-body]
    """Return the supported schemes of database URLs, each with the ``module:class`` of its ``Location``.

    The hook is called when the extension is loaded.
    """


@specifies
def rewrite_path(environ: dict[str, Any], path: str) -> str | None:
    """Return the path that decides which view handles a request, or ``None`` to use the path of the request.

    The hook is called for each request, before routing.
    """


@specifies
def response_ready(environ: dict[str, Any], response: Response, route: tuple[str, str], seconds: float) -> None:
    """Inspect or change a response before it is sent.

    The hook is called for each request, on the thread that handles the request. It must return within microseconds.

    Args:
        environ: The WSGI environment of the request.
        response: The response.
        route: The method and the URL rule that matched. Both are empty if no rule matched.
        seconds: The duration of the request, including the wait of a long poll.
    """


class Measurement(NamedTuple):
    """The current value of a metric.

    Attributes:
        name: The name of the metric. Omit the suffix ``_total`` of a counter, because the exposition adds it.
        description: The description of the metric.
        value: The number. For a metric with labels, a mapping from tuples of label values to numbers.
        labels: The names of the labels.
        is_count: Whether the metric is a counter, which never decreases.
    """

    name: str
    description: str
    value: float | Mapping[Any, float]
    labels: tuple[str, ...] = ()
    is_count: bool = False


@specifies
def measurements() -> Sequence[Measurement]:  # type: ignore[empty-body]
    """Return the current values of metrics.

    The hook is called at each scrape, on a thread that may wait for the database.
    """


class Erasure(NamedTuple):
    """A task that erases the data of one device outside the database.

    Attributes:
        rows: The number of rows of each kind.
        is_current: A function that returns whether ``rows`` is still complete. It is called in the transaction that
            erases the device's data in the database.
        finish: A function that erases the data after that transaction. If it fails, it returns the reason. Its argument
            ``is_alone`` is true if no server is using the database.
    """

    rows: Mapping[str, int]
    is_current: Callable[[Session], bool]
    finish: Callable[[bool], str | None]


@specifies
def erasure(database: Database, device_id: str, settings: Settings) -> Erasure:  # type: ignore[empty-body]
    """Return a task that erases the data of one device outside the database.

    ``mirror-server erase`` calls this hook.
    """


@specifies
def check(database: Database, settings: Settings) -> Sequence[Violation]:  # type: ignore[empty-body]
    """Check the data outside the database, and return a description of any damage.

    ``mirror-server check`` calls this hook if the database itself is undamaged.
    """


@specifies
def size(database: Database) -> str | None:
    """Return a line about the size of the extension's data, or ``None`` for no line.

    ``mirror-server check`` prints the line.
    """


@specifies(firstresult=True)
def device_conditions(parameters: Sequence[tuple[str, str]], own: Collection[str]) -> Sequence[Condition] | None:
    """Parse those parameters in the query string of a request that select devices.

    The first extension that does not return ``None`` parses all of the parameters. Without this hook such parameters
    are rejected. The directory accepts every parameter name. To add a filter to the directory, use
    :func:`device_fields`.

    Args:
        parameters: The parameters that the view does not use itself. There is at least one.
        own: The names of the parameters that the view uses. The error for an unknown parameter lists them.
    """


class DeviceField(NamedTuple):
    """A field by which the directory can filter devices.

    Attributes:
        name: The name of the field in filters.
        column: The SQL expression for the value of the field in a row of the table ``devices``. Its result must not be
            NULL, so supply a default value if necessary: ``coalesce((SELECT color FROM colors c WHERE c.device_id =
            devices.device_id), '')``.
        read: A function that parses a value. Its arguments are the name of the filter and the string. It may raise an
            :class:`~mirror_server.core.errors.ApiError`. Without this function, values are strings.
    """

    name: str
    column: str
    read: Callable[[str, str], str | int] | None = None


@specifies
def device_fields() -> Sequence[DeviceField]:  # type: ignore[empty-body]
    """Return fields by which devices can be filtered.

    The fields can be used in query parameters, in ``filter=`` and in saved queries, with all operators of the
    directory. They appear in the OpenAPI document. The hook is called once.
    """


@specifies
def device_filters() -> Sequence[Parameter]:  # type: ignore[empty-body]
    """Return the OpenAPI description of the parameters that :func:`device_conditions` parses."""


@specifies
def openapi_additions() -> Mapping[str, tuple[Sequence[ResponseSpec], Sequence[Parameter]]]:  # type: ignore[empty-body]
    """Return responses and parameters to add to operations of other extensions or of the core, by ``operationId``.

    They appear in the OpenAPI document. A response replaces a response with the same status.
    """


@specifies
def describe_devices(  # type: ignore[empty-body]
    session: Session, devices: Sequence[DeviceRow]
) -> Mapping[str, Mapping[str, Any]]:
    """Return members to add to the devices in the directory, by device id. They replace members with the same name.

    The hook is called in the transaction that reads the devices. A client may send a complete device back, including
    these members. The directory accepts them if their values are unchanged, and rejects other values.
    """


@specifies(firstresult=True)
def rules_put() -> Callable[[Session, str], Future[None] | None] | None:
    """Parse the query string of a request that puts presubscription rules.

    Return a function whose arguments are the session and the id of the application. It is called in the transaction
    that stores the rules. If it returns a future, the response waits for the future. Without this hook a request with
    a query string is rejected.
    """


@specifies(firstresult=True)
def snapshot_at(
    instant: Instant,
    conditions: Sequence[Condition],
    patterns: Sequence[str],
    content_type: str,
    compression: Compression,
) -> Response | None:
    """Return the fleet snapshot at a time in the past.

    Args:
        instant: The time of the snapshot.
        conditions: The conditions that devices have to meet.
        patterns: The patterns of resource paths to include. If it is empty, all paths are included.
        content_type: The content type of the response.
        compression: The compression of the buffers of an Arrow stream.
    """


class Extensions:
    """The extensions of one server.

    Args:
        without: The names of the extensions to leave out.

    Attributes:
        left_out: The reasons why extensions were left out, by the name of the extension.

    Raises:
        CannotServe: No installed extension has a name in ``without``, or an extension cannot be loaded.
    """

    def __init__(self, without: Collection[str] = ()) -> None:
        self._manager = pluggy.PluginManager(_PROJECT)
        self._manager.add_hookspecs(importlib.import_module(__name__))
        self.left_out: dict[str, str] = {}
        for name in without:
            if name not in installed():
                names = ", ".join(installed())
                raise CannotServe(f"--without {name}: no such extension; the installed extensions are {names}")
        for name, extension in installed().items():
            if name in without:
                self.left_out[name] = "--without leaves it out"
            elif isinstance(extension, Broken):
                raise CannotServe(f"{extension.reason}; fix or uninstall this extension, or use --without {name}")
            elif missing := _missing(name, extension):
                self.left_out[name] = missing
            else:
                self.add(extension, name)

    @property
    def hook(self) -> pluggy.HookRelay:
        """An object with one method for each hook, which calls the hook in all extensions."""
        return self._manager.hook

    @property
    def storages(self) -> list[Storage]:
        """The tables of the extensions, in the order of the extensions' names.

        Raises:
            CannotServe: Two extensions use the same name for their branch of migrations.
        """
        found = list(self.results("storage"))
        names = [(f"storage branch {storage.branch.name}", owner) for owner, storage in found]
        require_distinct([("storage branch core", SERVER), *names])
        return [storage for _, storage in found]

    @property
    def names(self) -> list[str]:
        """The names of the loaded extensions, in alphabetical order."""
        return [name for name in installed() if self._manager.has_plugin(name)]

    def add(self, extension: object, name: str | None = None) -> None:
        """Register the hooks of a module, or of an object that belongs to one server.

        Raises:
            CannotServe: A function is marked as a hook, but no such hook exists or the hook lacks one of its
                arguments.
        """
        kind = type(extension)
        name = name or f"{extension_of(kind.__module__) or kind.__module__} ({kind.__name__})"
        for attribute in dir(extension):
            if problem := self._problem(extension, attribute):
                raise CannotServe(f"the extension {name} cannot be loaded: {problem}")
        try:
            self._manager.register(extension, name)
        except ValueError as error:
            raise CannotServe(f"the extension {name} cannot be loaded: {error}") from error

    def _problem(self, extension: object, attribute: str) -> str:
        """Return the reason why an attribute of an extension cannot be a hook, with its file and line.

        The string is empty if the attribute can be a hook or is not meant to be one. pluggy detects the same errors,
        but its messages do not suggest a fix.
        """
        function = getattr(extension, attribute, None)
        if not isroutine(function) or not isinstance(code := getattr(function, "__code__", None), CodeType):
            return ""
        where = f"{attribute}() ({code.co_filename}:{code.co_firstlineno})"
        hooks = {hook: caller.spec.argnames for hook, caller in vars(self.hook).items() if caller.spec is not None}
        marked = self._manager.parse_hookimpl_opts(extension, attribute)
        if marked is None:
            # Other modules and classes may have methods such as ``stop`` and ``check``, which are not hooks.
            is_forgotten = isinstance(extension, ModuleType) and function.__module__ == extension.__name__
            if attribute in hooks and is_forgotten:
                return f"{where} has the name of a hook; mark it with @extends, or rename it"
            return ""
        hook = marked.get("specname") or attribute
        if hook not in hooks:
            similar = get_close_matches(hook, hooks, 1)
            cure = f"did you mean {similar[0]}?" if similar else "'mirror-server help extensions' names all hooks"
            return f"{where} is marked as a hook, but there is no hook {hook}; {cure}"
        for each in signature(function).parameters.values():
            is_required = each.kind is each.POSITIONAL_OR_KEYWORD and each.default is each.empty
            if is_required and each.name not in hooks[hook]:
                arguments = ", ".join(hooks[hook]) or "no arguments"
                return f"{where} has the argument {each.name}, but the hook {hook} has {arguments}"
        return ""

    def results(self, hook: str) -> Iterator[tuple[str, Any]]:
        """Yield the result and the name of each extension that implements a hook without arguments."""
        for implementation in getattr(self.hook, hook).get_hookimpls():
            if (result := implementation.function()) is not None:
                yield f"the extension {implementation.plugin_name}", result

    def implementations(self, hook: str) -> tuple[Callable[..., Any], ...]:
        """Return the functions that implement a hook, for calls that are too frequent for pluggy.

        The functions are called with positional arguments.

        Raises:
            CannotServe: A function does not accept all arguments of the hook.
        """
        caller = getattr(self.hook, hook)
        # pluggy calls the implementations in the reverse order of this list.
        found = caller.get_hookimpls()[::-1]
        for implementation in found:
            if implementation.argnames != caller.spec.argnames:
                arguments = ", ".join(caller.spec.argnames)
                where = f"the hook {hook} of {implementation.plugin_name}"
                raise CannotServe(f"{where} does not accept all of the arguments {arguments}")
        return tuple(implementation.function for implementation in found)

    def check(self, settings: Settings) -> None:
        """Check that the settings need no extension that is left out, and that the names of all settings are unique.

        Raises:
            CannotServe: A setting or the database needs an extension that is left out, or two settings have the same
                name.
        """
        setting_classes()
        scheme = settings.database_url.partition("://")[0]
        for name, reason in self.left_out.items():
            for schemes in _called(installed()[name], "locations"):
                if scheme in schemes:
                    url = redacted(settings.database_url)
                    raise CannotServe(f"the database {url} needs the extension {name}, which is not loaded: {reason}")
            for kind in _called(installed()[name], "settings"):
                values = settings.of(kind)
                for each in fields(kind):
                    if getattr(values, each.name) != each.default:
                        option = option_name(each)
                        raise CannotServe(f"{option} belongs to the extension {name}, which is not loaded: {reason}")


class Broken(NamedTuple):
    """An installed extension from another package that cannot be loaded, with the reason."""

    reason: str


@cache
def installed() -> Mapping[str, ModuleType | Broken]:
    """Return all installed extensions by name, including extensions that a server leaves out.

    The function also registers the schemes of database URLs that the extensions support.
    """
    found: dict[str, ModuleType | Broken] = {}
    # The server also works without the folder of extensions.
    if find_spec(_GROUP) is not None:
        package = importlib.import_module(_GROUP)
        for each in pkgutil.iter_modules(package.__path__):
            if each.ispkg:
                found[each.name] = importlib.import_module(f"{_GROUP}.{each.name}")
    for point in entry_points(group=_GROUP):
        if point.name in found:
            found[point.name] = Broken(f"two extensions have the name {point.name}, one of them {point.value}")
            continue
        try:
            found[point.name] = point.load()
        # :class:`Extensions` raises this error later, so that the help still works.
        except Exception as error:
            reason = f"{error}{_location_of(error)}"
            found[point.name] = Broken(f"the extension {point.name} ({point.value}) cannot be loaded: {reason}")
    for extension in found.values():
        for added in _called(extension, "locations"):
            LOCATIONS.update(added)
    return dict(sorted(found.items()))


def require_distinct(names: Iterable[tuple[str, str]]) -> None:
    """Check that all names are different.

    Args:
        names: Pairs of a name, such as ``setting port``, and the owner of the name.

    Raises:
        CannotServe: Two names are the same.
    """
    owners: dict[str, str] = {}
    for name, owner in names:
        if name in owners:
            raise CannotServe(f"{owners[name]} and {owner} both have the {name}; rename one of them")
        owners[name] = owner


def topic_folders() -> Mapping[str, Path]:
    """Return the folder with the topics of the manual for each installed extension that is a package.

    The folder may not exist.
    """
    return {
        name: Path(extension.__path__[0]) / "manual"
        for name, extension in installed().items()
        if isinstance(extension, ModuleType) and hasattr(extension, "__path__")
    }


def extension_of(module: str) -> str:
    """Return the name of the extension that a module belongs to, or an empty string if it belongs to none."""
    # An extension can be a single module. Then the other modules of its package belong to the extension too.
    for attribute in ("__name__", "__package__"):
        for name, extension in installed().items():
            if f"{module}.".startswith(f"{getattr(extension, attribute, None) or '?'}."):
                return name
    return ""


def extension_of_error(error: BaseException) -> str:
    """Return the name of the extension whose code raised an exception, or an empty string for other code."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    return next(filter(None, (extension_of(frame.f_globals.get("__name__", "")) for frame in frames[::-1])), "")


def call_installed(hook: str) -> list[Any]:
    """Call a hook of every installed extension, without a server, and return the results."""
    return [result for extension in installed().values() for result in _called(extension, hook)]


def setting_classes() -> list[type]:
    """Return the settings classes of the server and of all installed extensions, which declare the options.

    Raises:
        CannotServe: Two settings have the same name or option.
    """
    owned = [(SERVER, Settings)]
    for name, extension in installed().items():
        owned += [(f"the extension {name}", kind) for kind in _called(extension, "settings")]
    names = [(name, SERVER) for name in ("setting host", "option --host", "setting port", "option --port")]
    for owner, kind in owned:
        for each in fields(kind):
            names += [(f"setting {each.name}", owner), (f"option {option_name(each)}", owner)]
    require_distinct(names)
    return [kind for _, kind in owned]


def load_for_commands() -> Extensions:
    """Load the extensions for commands that use a database.

    Unlike a server, the commands also load extensions for which a package is missing. Otherwise they could not check or
    erase the data of these extensions.

    Raises:
        CannotServe: An extension cannot be loaded.
    """
    extensions = Extensions()
    for name in extensions.left_out:
        extensions.add(installed()[name], name)
    return extensions


def open_database(url: str, *, must_exist: bool = False, keep_schema: bool = False) -> Database:
    """Open a database with the tables of all installed extensions.

    Raises:
        DatabaseError: See :class:`Database`.
    """
    from mirror_server.store.database import Database  # noqa: PLC0415 - the help of the commands needs none

    return Database(url, load_for_commands().storages, must_exist=must_exist, keep_schema=keep_schema)


def read_settings(**values: Any) -> Settings:
    """Return the settings of a server and its extensions.

    Args:
        values: The values of the settings, by the name of the field.
    """
    extensions = []
    for kind in call_installed("settings"):
        names = [each.name for each in fields(kind)]
        extensions.append(kind(**{name: values.pop(name) for name in names if name in values}))
    return Settings(**values, extensions=tuple(extensions))


def _location_of(error: Exception) -> str:
    """Return the file and line in an extension that raised an error, or an empty string for other code."""
    lines = [
        f" ({frame.f_code.co_filename}:{line})"
        for frame, line in traceback.walk_tb(error.__traceback__)
        if frame.f_globals.get("__name__", "").partition(".")[0] not in {"importlib", _PROJECT}
    ]
    return lines[-1] if lines else ""


def _called(extension: ModuleType | Broken, hook: str) -> list[Any]:
    return [getattr(extension, hook)()] if hasattr(extension, hook) else []


def _missing(name: str, extension: ModuleType) -> str:
    """Return the reason to leave an extension out, or an empty string if all modules that it needs are installed.

    Raises:
        CannotServe: ``needs`` returned a string instead of a list.
    """
    needed = _called(extension, "needs")
    for each in needed:
        # Iterating over a string would treat each letter as the name of a module.
        if isinstance(each, str):
            raise CannotServe(f"needs() of the extension {name} returned the text {each!r}; return a list, [{each!r}]")
    module = next((each for each in chain(*needed) if find_spec(each) is None), None)
    if module is None:
        return ""
    if not extension.__name__.startswith(f"{_GROUP}."):
        return f"{module} is missing; pip install it"
    extra = name if name in (metadata("device-state-mirror").get_all("Provides-Extra") or ()) else "server"
    return f"{module} is missing; pip install 'device-state-mirror[{extra}]'"
