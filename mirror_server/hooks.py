"""Extensions: how to add routes, settings, storage and other features to the server, and when each hook is called."""

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
"""The name of the core in errors of :func:`require_distinct`."""

specifies = pluggy.HookspecMarker(_PROJECT)
extends = pluggy.HookimplMarker(_PROJECT)
"""Marks a function or method of an extension as a hook."""


@specifies
def needs() -> Sequence[str]:  # type: ignore[empty-body]
    """Return the modules of other packages that the extension needs.

    If one is missing, a server leaves the extension out. Commands still use it.
    """


@specifies
def settings() -> type:  # type: ignore[empty-body]
    """Return a frozen dataclass with fields from :func:`mirror_server.config.setting`: options and variables.

    Called before the command line is parsed.
    """


@specifies
def commands() -> Mapping[str, Sequence[str]]:  # type: ignore[empty-body]
    """Return modules that add commands to ``mirror-server`` when they are imported, with the names of the commands."""


@specifies
def help_topics() -> Mapping[str, str]:  # type: ignore[empty-body]
    """Return topics of ``mirror-server help``, with the module whose docstring is the text of the topic.

    For extensions without a folder ``manual``, such as single modules.
    """


@specifies
def storage() -> Storage:  # type: ignore[empty-body]
    """Return the tables of the extension. Called when a database is opened. The name of the branch must be unique."""


@specifies
def check_settings(settings: Settings) -> None:
    """Raise :class:`CannotServe` if the server cannot run with these settings.

    Called before a server opens its database.
    """


@specifies
def configure_logging(settings: Settings) -> None:
    """Set up :mod:`logging` in the process of a command that serves, before anything is logged."""


@specifies
def shared_settings(settings: Settings) -> str:  # type: ignore[empty-body]
    """Return a phrase for the error message about settings that must be the same, such as ``with --simulate``.

    All processes on one database must have these settings. The phrases of all extensions are joined with "and"; the
    clock setting comes last. To put a phrase after the clock, start it with ``", "``. Return ``""`` to add nothing.
    """


@specifies
def build(services: Services) -> Sequence[object]:  # type: ignore[empty-body]
    """Build the objects that belong to one server. :meth:`Services.part` returns each by its class.

    Called when the core is built and before anything runs.

    Raises:
        CannotServe: The server cannot start with its settings.
    """


@specifies
def lead() -> None:
    """Start the work of the leader. One of the processes on a database is the leader, which decides and stores.

    Called before anything is stored, on the main thread or on the thread of the election.
    """


@specifies
def connect_devices() -> None:
    """Restore the connections of devices, and accept new ones. Called after :func:`lead`."""


@specifies
def disconnect_devices() -> None:
    """Close the connections of devices. Their stored data remains. Called before :func:`resign`."""


@specifies
def started() -> None:
    """Start work that needs a running server. Called when the server is ready."""


@specifies
def interrupted() -> None:
    """Prepare for an outage of the storage.

    Let no registration expire until :func:`resumed`, because updates of registrations cannot be stored.
    """


@specifies
def resumed(session: Session, since: Instant) -> None:
    """Continue after an interruption of storage, or at the start of the server.

    Args:
        session: The transaction in which it is called.
        since: The instant since which nothing could be stored.
    """


@specifies
def resync() -> None:
    """Check everything that other processes may have signaled, because some signals may have been missed."""


@specifies
def every_hour(now: Instant) -> None:
    """Delete data after its retention period, in separate short transactions, because each delays all others."""


@specifies
def resign() -> None:
    """Stop the work of the leader. Called when another process leads or the server stops. May be called twice."""


@specifies
def stop() -> None:
    """Stop, because the server stops. Work that is submitted to the database now is still stored."""


@specifies
def clock_advanced() -> None:
    """Apply the new time of a manual clock, which was advanced."""


@specifies
def values_reported(session: Session, batch: Sequence[ReportedChange]) -> None:
    """Process values that devices reported.

    Called in the transaction that stores them, on the writer thread. A batch contains the values of one group of
    changes (up to 2,000). An exception rolls the group back. If no extension has this hook, no batches are built.
    """


@specifies
def write_finished(session: Session, batch: Sequence[FinishedWrite]) -> None:
    """Process writes that succeeded or failed. Called like :func:`values_reported`."""


@specifies
def registration_changed(session: Session, batch: Sequence[RegistrationChange]) -> None:
    """Process registrations that started, were updated or ended. Called like :func:`values_reported`."""


@specifies
def devices_deleted(session: Session, device_ids: Sequence[str]) -> None:
    """Delete the data of devices that made no contact for months.

    Called in the transaction, before their rows are deleted. For a device that an operator erases, ``erase`` of
    :func:`storage` is called instead.
    """


@specifies
def responses_added(
    session: Session, app_id: str, entries: Sequence[Mapping[str, Any]], first_seq: int, at: Instant
) -> None:
    """Process async responses that are appended to the log of an application. Called like :func:`values_reported`.

    Args:
        session: The transaction.
        app_id: The application.
        entries: The responses.
        first_seq: The number of the first response in the log. The others have the next numbers.
        at: The instant at which they were appended.
    """


class Handling(NamedTuple):
    """The handling of a device request by an extension.

    Attributes:
        check: Called in the transaction that queues the request, unless its async-id was used before. It may raise
            :class:`~mirror_server.core.errors.ApiError`.
        respond: Returns a response that replaces the server's. Its arguments are the future of the command, and a
            function that returns the usual 202 for the command, with additional members in the body.
        is_conditional: Whether ``check`` evaluates the header ``If-Match``. If no extension evaluates it, a request
            with ``If-Match`` is rejected.
    """

    check: Callable[[Session, CommandContext], object] | None = None
    respond: Callable[[Future[Command], Callable[..., Response]], Response] | None = None
    is_conditional: bool = False


@specifies
def device_request(submission: CommandSubmission) -> Handling | None:
    """Return how the extension handles a device request. Called in the view of each request, before it is queued.

    Raises:
        ApiError: The request is rejected.
    """


@specifies
def blueprints() -> Sequence[Blueprint]:  # type: ignore[empty-body]
    """Return the routes of the extension. Called when the app is created.

    Mark each view with :func:`mirror_server.views.requests.requires`. To include it in the OpenAPI document, also use
    :func:`mirror_server.views.description.described`.
    """


@specifies
def openapi_exclusions(settings: Settings) -> Sequence[str]:  # type: ignore[empty-body]
    """Return path prefixes to exclude from the OpenAPI document, because these settings disable their routes."""


@specifies
def extend_openapi(document: dict[str, Any]) -> None:
    """Add to the OpenAPI document, for example to the descriptions of routes of other extensions."""


@specifies
def demo_settings() -> Mapping[str, Any]:  # type: ignore[empty-body]
    """Return settings for ``mirror-server demo`` that are not options of it."""


@specifies
def device_address() -> str:  # type: ignore[empty-body]
    """Return a line with the addresses for devices. A command prints it first when the server listens."""


@specifies
def announcements(services: Services, url: str, key: str | None) -> Sequence[str]:  # type: ignore[empty-body]
    """Return lines that a command prints when the server listens; ``key`` is the new key of ``mirror-server demo``."""


@specifies
def configure_server(config: uvicorn.Config, bridge: ASGIBridge, services: Services) -> None:
    """Change the configuration of the HTTP server before it is created.

    ``config.ws`` is an :data:`~mirror_server.web.serve.Upgrade`, which upgrades connections to other protocols. An
    extension that replaces ``config.http`` has to call it.
    """


@specifies(firstresult=True)
def accept(server: uvicorn.Server, sockets: Sequence[socket.socket]) -> list[asyncio.Server] | None:
    """Accept connections instead of the HTTP server. Called on the event loop, when it starts to listen."""


@specifies(firstresult=True)
def client_of(environ: dict[str, Any]) -> str | None:
    """Return the client that sent a request, to count its wrong keys.

    Without this hook the client is the address of the connection.
    """


@specifies
def locations() -> Mapping[str, str]:  # type: ignore[empty-body]
    """Return the schemes of database URLs, each with the ``module:class`` of its ``Location``.

    Called when the extension is loaded.
    """


@specifies
def rewrite_path(environ: dict[str, Any], path: str) -> str | None:
    """Return the path to route a request to, or ``None`` to keep its own. Called for each request, before routing."""


@specifies
def response_ready(environ: dict[str, Any], response: Response, route: tuple[str, str], seconds: float) -> None:
    """Inspect or change a response before it is sent.

    Called for each request, on the thread that handles it, and must return within microseconds.

    Args:
        environ: The WSGI environment of the request.
        response: The response.
        route: The method and the rule of the matching route. Both are empty if no route matched.
        seconds: The duration of the request, including the wait of a long poll.
    """


class Measurement(NamedTuple):
    """The current value of a metric.

    Attributes:
        name: The name of the metric. A count has no ``_total`` here, which is added in the exposition.
        description: The description of the metric.
        value: The number. With labels it is a mapping from a tuple of label values to the number.
        labels: The names of the labels.
        is_count: Whether the value never decreases.
    """

    name: str
    description: str
    value: float | Mapping[Any, float]
    labels: tuple[str, ...] = ()
    is_count: bool = False


@specifies
def measurements() -> Sequence[Measurement]:  # type: ignore[empty-body]
    """Return the current metrics. Called at each scrape, on a thread that may wait for the database."""


class Erasure(NamedTuple):
    """The erasure of a device's data outside the database.

    Attributes:
        rows: The number of rows by kind.
        is_current: Called in the transaction that erases the rest. It returns whether ``rows`` is still complete.
        finish: Erases the data after that transaction, and returns the reason if that failed. The argument
            ``is_alone`` is whether no server runs on the database.
    """

    rows: Mapping[str, int]
    is_current: Callable[[Session], bool]
    finish: Callable[[bool], str | None]


@specifies
def erasure(database: Database, device_id: str, settings: Settings) -> Erasure:  # type: ignore[empty-body]
    """Return the erasure of a device's data outside the database. Called by ``mirror-server erase``."""


@specifies
def check(database: Database, settings: Settings) -> Sequence[Violation]:  # type: ignore[empty-body]
    """Return damage outside the database. ``mirror-server check`` calls it if the database itself is undamaged."""


@specifies
def size(database: Database) -> str | None:
    """Return a line about a size for ``mirror-server check``, or ``None`` for no line."""


@specifies(firstresult=True)
def device_conditions(parameters: Sequence[tuple[str, str]], own: Collection[str]) -> Sequence[Condition] | None:
    """Parse the conditions on devices in the query of a request. Without this hook such parameters are rejected.

    The first extension that does not return ``None`` parses all of them. The directory accepts every parameter. To add
    a filter to the directory, use :func:`device_fields`.

    Args:
        parameters: The parameters that the view does not use itself; at least one.
        own: The names of the parameters that the view uses, to list them in the error for an unknown one.
    """


class DeviceField(NamedTuple):
    """A field that the directory filters devices by.

    Attributes:
        name: Its name in filters.
        column: An SQL expression for its value in a row of the table ``devices``. It must not be NULL:
            ``coalesce((SELECT color FROM colors c WHERE c.device_id = devices.device_id), '')``.
        read: Parses a value, from the name of the filter and the text. It may raise a
            :class:`~mirror_server.core.errors.ApiError`. Without it values are strings.
    """

    name: str
    column: str
    read: Callable[[str, str], str | int] | None = None


@specifies
def device_fields() -> Sequence[DeviceField]:  # type: ignore[empty-body]
    """Return fields to filter devices by: in parameters, ``filter=``, saved queries and the OpenAPI document.

    Called once. All operators of the directory can be used with them.
    """


@specifies
def device_filters() -> Sequence[Parameter]:  # type: ignore[empty-body]
    """Return the OpenAPI description of the parameters that :func:`device_conditions` parses."""


@specifies
def openapi_additions() -> Mapping[str, tuple[Sequence[ResponseSpec], Sequence[Parameter]]]:  # type: ignore[empty-body]
    """Return responses and parameters to add to operations of others in the OpenAPI document, by ``operationId``.

    A response replaces one with the same status.
    """


@specifies
def describe_devices(  # type: ignore[empty-body]
    session: Session, devices: Sequence[DeviceRow]
) -> Mapping[str, Mapping[str, Any]]:
    """Return members to add to devices in the directory, by device id. They replace members of the same name.

    Called in the transaction that reads the devices. A program that sends a complete device back sends these members
    too. The directory accepts them unchanged, and rejects other values.
    """


@specifies(firstresult=True)
def rules_put() -> Callable[[Session, str], Future[None] | None] | None:
    """Parse the query of a request that puts presubscription rules. Without this hook a query is rejected.

    Returns a function that is called with the application, in the transaction that stores the rules. If it returns a
    future, the response waits for it.
    """


@specifies(firstresult=True)
def snapshot_at(
    instant: Instant,
    conditions: Sequence[Condition],
    patterns: Sequence[str],
    content_type: str,
    compression: Compression,
) -> Response | None:
    """Return the fleet snapshot as of an earlier instant.

    Args:
        instant: The instant.
        conditions: The conditions that devices have to meet.
        patterns: The patterns of resource paths to include; empty for all.
        content_type: The content type of the response.
        compression: The compression of the buffers of an Arrow stream.
    """


class Extensions:
    """The extensions of one server.

    Args:
        without: The names of the extensions to leave out.

    Attributes:
        left_out: The names of the extensions that are left out, each with the reason.

    Raises:
        CannotServe: There is no extension with such a name, or an extension cannot be loaded.
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
        """The relay that calls a hook of all extensions, by the name of the hook."""
        return self._manager.hook

    @property
    def storages(self) -> list[Storage]:
        """The tables of the extensions, in the order of the extensions' names.

        Raises:
            CannotServe: Two of them have a branch of the same name.
        """
        found = list(self.results("storage"))
        names = [(f"storage branch {storage.branch.name}", owner) for owner, storage in found]
        require_distinct([("storage branch core", SERVER), *names])
        return [storage for _, storage in found]

    @property
    def names(self) -> list[str]:
        """The names of the loaded extensions, in order."""
        return [name for name in installed() if self._manager.has_plugin(name)]

    def add(self, extension: object, name: str | None = None) -> None:
        """Register the hooks of a module, or of an object that belongs to one server.

        Raises:
            CannotServe: A marked function is not a hook, or has an argument that the hook does not have.
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
        """Return why an attribute of an extension cannot be a hook, with its file and line. Empty if it can be one.

        pluggy finds the same problems, but reports them in its own terms.
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
        """Yield the results of a hook without arguments, each with the name of its extension, ordered by name."""
        for implementation in getattr(self.hook, hook).get_hookimpls():
            if (result := implementation.function()) is not None:
                yield f"the extension {implementation.plugin_name}", result

    def implementations(self, hook: str) -> tuple[Callable[..., Any], ...]:
        """Return the functions of a hook, for calls that are too frequent for pluggy. They take positional arguments.

        Raises:
            CannotServe: A function does not take all arguments.
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
        """Check that the settings do not need an extension that is left out, and that their names are unique.

        Raises:
            CannotServe: A setting or the database needs such an extension, or two settings have the same name.
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
    """An extension of another package that cannot be loaded, and the reason."""

    reason: str


@cache
def installed() -> Mapping[str, ModuleType | Broken]:
    """Return all installed extensions by name, including those to leave out. Registers their database schemes."""
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
        # Raised by :class:`Extensions`, so that the help works in spite of it.
        except Exception as error:
            reason = f"{error}{_location_of(error)}"
            found[point.name] = Broken(f"the extension {point.name} ({point.value}) cannot be loaded: {reason}")
    for extension in found.values():
        for added in _called(extension, "locations"):
            LOCATIONS.update(added)
    return dict(sorted(found.items()))


def require_distinct(names: Iterable[tuple[str, str]]) -> None:
    """Check that all names are different. Each, such as ``setting port``, comes with its owner.

    Raises:
        CannotServe: Two are the same.
    """
    owners: dict[str, str] = {}
    for name, owner in names:
        if name in owners:
            raise CannotServe(f"{owners[name]} and {owner} both have the {name}; rename one of them")
        owners[name] = owner


def topic_folders() -> Mapping[str, Path]:
    """Return the folder of the manual's topics for each installed extension that is a package. It may not exist."""
    return {
        name: Path(extension.__path__[0]) / "manual"
        for name, extension in installed().items()
        if isinstance(extension, ModuleType) and hasattr(extension, "__path__")
    }


def extension_of(module: str) -> str:
    """Return the name of the extension that a module belongs to. Empty if it belongs to none."""
    # An extension can be a single module, and other modules of its package belong to it too.
    for attribute in ("__name__", "__package__"):
        for name, extension in installed().items():
            if f"{module}.".startswith(f"{getattr(extension, attribute, None) or '?'}."):
                return name
    return ""


def extension_of_error(error: BaseException) -> str:
    """Return the name of the extension whose code raised an exception. Empty if none did."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    return next(filter(None, (extension_of(frame.f_globals.get("__name__", "")) for frame in frames[::-1])), "")


def call_installed(hook: str) -> list[Any]:
    """Call a hook of every installed extension, without a server, and return the results."""
    return [result for extension in installed().values() for result in _called(extension, hook)]


def setting_classes() -> list[type]:
    """Return the classes with the settings of the server and of all installed extensions, for the options of a command.

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
    """Load the extensions for commands on a database, including those that a server omits because a package is missing.

    So their stored data is checked and erased too.

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
    """Return the settings of a server and its extensions from values by field name."""
    extensions = []
    for kind in call_installed("settings"):
        names = [each.name for each in fields(kind)]
        extensions.append(kind(**{name: values.pop(name) for name in names if name in values}))
    return Settings(**values, extensions=tuple(extensions))


def _location_of(error: Exception) -> str:
    """Return file and line of the code of an extension that raised an error.

    Empty if the error did not come from its code.
    """
    lines = [
        f" ({frame.f_code.co_filename}:{line})"
        for frame, line in traceback.walk_tb(error.__traceback__)
        if frame.f_globals.get("__name__", "").partition(".")[0] not in {"importlib", _PROJECT}
    ]
    return lines[-1] if lines else ""


def _called(extension: ModuleType | Broken, hook: str) -> list[Any]:
    return [getattr(extension, hook)()] if hasattr(extension, hook) else []


def _missing(name: str, extension: ModuleType) -> str:
    """Return the reason to leave an extension out: the first missing module that it needs. Empty if none is missing.

    Raises:
        CannotServe: ``needs`` returned a string instead of a list.
    """
    needed = _called(extension, "needs")
    for each in needed:
        # Each letter of a string would be looked for as a module.
        if isinstance(each, str):
            raise CannotServe(f"needs() of the extension {name} returned the text {each!r}; return a list, [{each!r}]")
    module = next((each for each in chain(*needed) if find_spec(each) is None), None)
    if module is None:
        return ""
    if not extension.__name__.startswith(f"{_GROUP}."):
        return f"{module} is missing; pip install it"
    extra = name if name in (metadata("device-state-mirror").get_all("Provides-Extra") or ()) else "server"
    return f"{module} is missing; pip install 'device-state-mirror[{extra}]'"
