"""Extensions: how to add routes, settings, storage and other features to the server, and when each hook is called.

The server is a small core and extensions. The folders of ``mirror_server/extensions`` are extensions, and other
packages can add their own. ``mirror-server run --without NAME`` leaves one out. An extension whose package is not
installed is left out automatically. The startup log and ``GET /healthz`` list the loaded extensions; ``mirror-server
help extensions`` ends with a list of all.

Writing an extension
--------------------

Make a package with a module that contains functions with the names of hooks (below), each marked with ``@extends``.
Name the module under the entry-point group ``mirror_server.extensions``::

    [project.entry-points."mirror_server.extensions"]
    greeting = "mirror_greeting"

All hooks are optional. This extension adds a route, a setting and a metric::

    from dataclasses import dataclass
    from flask import Blueprint
    from mirror_server.config import setting
    from mirror_server.hooks import Measurement, extends
    from mirror_server.views.requests import requires, services

    routes = Blueprint("greeting", __name__)

    @dataclass(frozen=True, kw_only=True)
    class Greeting:
        greeting: str = setting("hello", "The text of the greeting.")   # --greeting, MIRROR_GREETING

    @extends
    def settings():
        return Greeting

    @extends
    def blueprints():
        return [routes]

    @extends
    def measurements():
        return [Measurement("greetings", "The number of greetings.", 1)]

    @routes.get("/greeting")
    @requires()                                               # no key; requires(Scope.READ) needs one with that scope
    def greet():
        return services().settings.of(Greeting).greeting

State of one server belongs into an object that ``build(services)`` returns. The object can have hooks too, as marked
methods. A view gets it with ``services().part(ItsClass)``. A hook may take fewer arguments than its specification;
hooks that are called for each request or value take all. ``@extends(specname="lead")`` marks a function with another
name.

A view without ``@requires`` needs a key of any scope, and returns 401 without one.

A setting is an option of ``mirror-server run`` and a variable for other WSGI servers (``help wsgi``). ``setting(...,
commands=("run", "wsgi", "demo"))`` adds it to ``demo``. ``setting`` accepts all arguments of ``click.option``, for
example ``type=click.IntRange(1, 100)`` for a range.

Two settings, options, routes, metrics, storage branches or device fields of the same name prevent the server from
starting. Prefix your names with the name of the extension.

Storage
-------

Return a :class:`~mirror_server.store.backend.Storage` with a :class:`~mirror_server.store.schema.Branch`, which is a
folder of SQL files, ``0001.sql`` and so on::

    @extends
    def storage():
        return Storage(branch=Branch("greeting", Path(__file__).parent / "migrations"), erase=erase)

    def erase(session, device_id, endpoint_name):             # an operator erases this device
        return {"greetings": session.run("DELETE FROM greetings WHERE device_id = :id", id=device_id)}

    @extends
    def devices_deleted(session, device_ids):                 # these were not connected for months
        for device_id in device_ids:
            erase(session, device_id, None)

Tables with rows of devices need both functions. The result of ``erase`` is part of the receipt of
``mirror-server erase``. All extensions share its names, so prefix these too. While an extension is left out, its tables
stay unchanged.

Simulated devices report subscribed resources only, as real ones do. To test ``values_reported``, subscribe a resource.

``tests/extensions/sample`` in the source distribution of ``device-state-mirror`` is a complete extension of less than a
hundred lines. It publishes each reported value, with a route, a setting, a metric and a table.

The hooks, in the order in which a server calls them
----------------------------------------------------

- Before a server is built: ``needs``, ``settings``, ``commands``, ``help_topics``, ``locations``, ``storage``,
  ``configure_logging``, ``check_settings``, ``in_common``.
- While it is built: ``build``, ``blueprints``, ``configure_server``, ``accept``.
- While it runs: ``lead``, ``connect_devices``, ``started``, ``interrupted`` and ``resumed``, ``every_hour``,
  ``caught_up``, ``clock_advanced``, ``disconnect_devices``, ``resign``, ``stop``.
- In the transaction of a change, on the writer thread: ``values_reported``, ``write_finished``,
  ``registration_changed``, ``devices_deleted``, ``responses_added``. A batch contains the values that one group of
  changes stores, up to some thousand; an exception rolls the group back. Send anything to the outside after the
  transaction, with ``session.after_commit``.
- For each request: ``rewrite_path``, ``response_ready``. For each device request: ``device_request``. For a request
  with a wrong key: ``client_of``.
- On demand: ``measurements``, ``undescribed``, ``interface_described``, ``device_conditions``, ``device_fields``,
  ``device_filters``, ``described_besides``, ``describe_devices``, ``rules_put``, ``snapshot_at``.
- For commands: ``demo_settings``, ``devices_come_to``, ``announcements``, ``erasure``, ``check``, ``size``.

Each hook is documented in ``mirror_server.hooks``. A hook without implementations costs nothing per request or value.
The module of an extension is imported for every command, so import slow modules only where they are used.
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
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

import pluggy

from mirror_server.config import Settings, option_name
from mirror_server.core.errors import CannotServe
from mirror_server.store.backend import LOCATIONS, shown

if TYPE_CHECKING:
    import asyncio
    import socket
    from concurrent.futures import Future

    import uvicorn
    from flask import Blueprint, Response

    from mirror_sdk.wire.snapshot import Compression
    from mirror_server.core.commands import Command
    from mirror_server.core.instants import Instant
    from mirror_server.server import Services
    from mirror_server.service.commands import CommandSubmission
    from mirror_server.store.backend import Storage, Violation
    from mirror_server.store.changes import FinishedWrite, RegistrationChange, ReportedChange
    from mirror_server.store.commands import CommandContext
    from mirror_server.store.conditions import Condition
    from mirror_server.store.database import Database
    from mirror_server.store.devices import DeviceRow
    from mirror_server.store.session import Session
    from mirror_server.views.description import Parameter, ResponseSpec
    from mirror_server.web.bridge import Bridge

_PROJECT = "mirror_server"
_GROUP = "mirror_server.extensions"
SERVER = "the server"
"""What :func:`require_distinct` calls the core."""

specifies = pluggy.HookspecMarker(_PROJECT)
extends = pluggy.HookimplMarker(_PROJECT)
"""Marks a function or method of an extension as a hook."""


@specifies
def needs() -> Sequence[str]:  # type: ignore[empty-body]
    """The modules of other packages without which a server leaves the extension out; commands still have it."""


@specifies
def settings() -> type:  # type: ignore[empty-body]
    """A frozen dataclass whose fields :func:`mirror_server.config.setting` made: options and variables.

    Called before the command line is read.
    """


@specifies
def commands() -> Mapping[str, Sequence[str]]:  # type: ignore[empty-body]
    """Modules that add commands to ``mirror-server`` when they are loaded, and the names of these commands."""


@specifies
def help_topics() -> Mapping[str, str]:  # type: ignore[empty-body]
    """Topics of ``mirror-server help``, and the module whose docstring each is."""


@specifies
def storage() -> Storage:  # type: ignore[empty-body]
    """What it stores in the database. Called when a database is opened; no other has a branch of the same name."""


@specifies
def check_settings(settings: Settings) -> None:
    """Raise :class:`CannotServe` where something is asked for that is not possible.

    Called before a server opens its database.
    """


@specifies
def configure_logging(settings: Settings) -> None:
    """Set up :mod:`logging` for a process that a command serves in, before anything is logged."""


@specifies
def in_common(settings: Settings) -> str:  # type: ignore[empty-body]
    """What of the settings all processes on one database must have in common, as ``with --simulate``.

    What begins with a comma stands behind what is said of the clock; nothing is said where it is empty.
    """


@specifies
def build(services: Services) -> Sequence[object]:  # type: ignore[empty-body]
    """Make what belongs to one server; each is found again by its class, with :meth:`Services.part`.

    Called when the core is built and nothing runs yet; may raise :class:`CannotServe`.
    """


@specifies
def lead() -> None:
    """This process begins to decide and to store; of several on one database one does.

    Called before anything is stored, on the main thread or on that of the election.
    """


@specifies
def connect_devices() -> None:
    """Take up the devices that were connected, and let others come; called behind :func:`lead`."""


@specifies
def disconnect_devices() -> None:
    """Let go of the devices; what is stored of them stays. Called before :func:`resign`."""


@specifies
def started() -> None:
    """The server is ready."""


@specifies
def interrupted() -> None:
    """Nothing can be stored at the moment: devices cannot update their registrations."""


@specifies
def resumed(session: Session, since: Instant) -> None:
    """Storing works again, or the server starts; it did not since this instant. Called in a transaction."""


@specifies
def caught_up() -> None:
    """Signals of other processes may have been missed: look at everything they could have been about."""


@specifies
def every_hour(now: Instant) -> None:
    """Delete what was kept long enough, in transactions of its own that are short: each holds up all others."""


@specifies
def resign() -> None:
    """It does so no more, or the server stops; may be called twice."""


@specifies
def stop() -> None:
    """The server stops; what is submitted to the database now is still stored."""


@specifies
def clock_advanced() -> None:
    """A manual clock was advanced."""


@specifies
def values_reported(session: Session, batch: Sequence[ReportedChange]) -> None:
    """Devices reported values.

    Called in the transaction that stores them, on the thread of the writer, with those of one group of changes (up to
    2,000). An exception undoes the group. Nothing is built where no extension has this hook.
    """


@specifies
def write_finished(session: Session, batch: Sequence[FinishedWrite]) -> None:
    """Writes succeeded or failed; called as :func:`values_reported` is."""


@specifies
def registration_changed(session: Session, batch: Sequence[RegistrationChange]) -> None:
    """Registrations began, were updated or ended; called as :func:`values_reported` is."""


@specifies
def devices_deleted(session: Session, device_ids: Sequence[str]) -> None:
    """Devices go that had no contact for months; called in the transaction, before their rows are deleted.

    A device that an operator erases goes by ``erase`` of :func:`storage` instead.
    """


@specifies
def responses_added(
    session: Session, app_id: str, entries: Sequence[Mapping[str, Any]], first_seq: int, at: Instant
) -> None:
    """Async responses were added to the log of an application; called as :func:`values_reported` is.

    Args:
        session: The transaction.
        app_id: The application.
        entries: The responses.
        first_seq: The number of the first one in the log; the others follow it.
        at: When they were added.
    """


class Handling(NamedTuple):
    """How an extension takes part in a device request.

    Attributes:
        check: Called in the transaction that queues it, unless it was queued before under its async-id. It may raise
            :class:`~mirror_server.core.errors.ApiError`.
        respond: Makes the response in place of the server. It takes the future of the command, and the function that
            makes the usual 202 of that, with further members of its body.
        is_conditional: Whether ``check`` is about the request's ``If-Match``, which is refused where no one checks it.
    """

    check: Callable[[Session, CommandContext], object] | None = None
    respond: Callable[[Future[Command], Callable[..., Response]], Response] | None = None
    is_conditional: bool = False


@specifies
def device_request(submission: CommandSubmission) -> Handling | None:
    """A device request came and is queued next. Called for each, in its view, and may refuse it."""


@specifies
def blueprints() -> Sequence[Blueprint]:  # type: ignore[empty-body]
    """Routes. Called when the app is made.

    Each view is marked with :func:`mirror_server.views.requests.requires`, and with
    :func:`mirror_server.views.description.described` to be in the description of the interface.
    """


@specifies
def undescribed(settings: Settings) -> Sequence[str]:  # type: ignore[empty-body]
    """Beginnings of paths that the description of the interface leaves out: with these settings nothing is there."""


@specifies
def interface_described(document: dict[str, Any]) -> None:
    """Add to the description of the interface, an OpenAPI document, what concerns the routes of others."""


@specifies
def demo_settings() -> Mapping[str, Any]:  # type: ignore[empty-body]
    """Settings that ``mirror-server demo`` has beside those of its options."""


@specifies
def devices_come_to() -> str:  # type: ignore[empty-body]
    """A line with the addresses that devices are to come to; a command prints it first when all listens."""


@specifies
def announcements(services: Services, url: str, key: str | None) -> Sequence[str]:  # type: ignore[empty-body]
    """Lines that a command prints when all listens; ``key`` is the one that ``mirror-server demo`` made."""


@specifies
def configure_server(config: uvicorn.Config, bridge: Bridge, services: Services) -> None:
    """Change the configuration of the HTTP server, before it is made.

    Its ``ws`` is an :data:`~mirror_server.web.serve.Upgrade`: what makes other protocols of connections. An ``http`` of
    an extension asks that.
    """


@specifies(firstresult=True)
def accept(server: uvicorn.Server, sockets: Sequence[socket.socket]) -> list[asyncio.Server] | None:
    """Accept connections in the place of the HTTP server. Called on the event loop, when it starts to listen."""


@specifies(firstresult=True)
def client_of(environ: dict[str, Any]) -> str | None:
    """Who sent a request, so that wrong keys count as theirs; without this hook the address of its connection."""


@specifies
def locations() -> Mapping[str, str]:  # type: ignore[empty-body]
    """The schemes of database URLs, and for each the ``module:class`` of its ``Location``.

    Called when it is loaded.
    """


@specifies
def rewrite_path(environ: dict[str, Any], path: str) -> str | None:
    """The path that a request is taken for; ``None`` for its own. Called for each request, before routing."""


@specifies
def response_ready(environ: dict[str, Any], response: Response, route: tuple[str, str], seconds: float) -> None:
    """A request has its answer, which may still be changed, and is sent behind this.

    Called for each request, on the thread that answers, and must take microseconds.

    Args:
        environ: The request's WSGI environment.
        response: Its answer.
        route: Its method and the rule that it matched; both empty where there is none.
        seconds: How long it took; of a long poll how long it was held.
    """


class Measurement(NamedTuple):
    """A metric as it is now.

    Attributes:
        name: Its name; that of a count without the ``_total`` it has in the exposition.
        meaning: What it says.
        value: The number; of a metric with labels a number for each tuple of their values.
        labels: The names of the labels.
        is_count: Whether it only ever grows.
    """

    name: str
    meaning: str
    value: float | Mapping[Any, float]
    labels: tuple[str, ...] = ()
    is_count: bool = False


@specifies
def measurements() -> Sequence[Measurement]:  # type: ignore[empty-body]
    """Metrics as they are now. Called at each scrape, on a thread that may wait for the database."""


class Erasure(NamedTuple):
    """How a device is erased from what is kept outside of the database.

    Attributes:
        rows: How many rows there are, by what they are.
        is_current: Tells in the transaction that erases the rest whether these are still all.
        finish: Erases it behind that transaction; gives why that was not possible. ``is_alone`` is whether no server
            runs on the database.
    """

    rows: Mapping[str, int]
    is_current: Callable[[Session], bool]
    finish: Callable[[bool], str | None]


@specifies
def erasure(database: Database, device_id: str, settings: Settings) -> Erasure:  # type: ignore[empty-body]
    """Called by ``mirror-server erase``."""


@specifies
def check(database: Database, settings: Settings) -> Sequence[Violation]:  # type: ignore[empty-body]
    """What is wrong outside of the database. Called by ``mirror-server check``, where the database itself is right."""


@specifies
def size(database: Database) -> str | None:
    """How large something is, in a line for ``mirror-server check``; ``None`` for nothing to say."""


@specifies(firstresult=True)
def device_conditions(parameters: Sequence[tuple[str, str]], own: Collection[str]) -> Sequence[Condition] | None:
    """Read the conditions on devices in the query of a request; without this hook its parameters are refused.

    The first extension that does not return ``None`` reads all of them. The directory takes every parameter: to add a
    filter to its own, use :func:`device_fields`.

    Args:
        parameters: The parameters that the view does not read itself; at least one.
        own: The names of those that the view reads, for the message about an unknown parameter.
    """


class DeviceField(NamedTuple):
    """A field that the directory filters devices by.

    Attributes:
        name: Its name in filters.
        column: SQL for its value, of a row of the table ``devices``. It must not be NULL:
            ``coalesce((SELECT color FROM colors c WHERE c.device_id = devices.device_id), '')``.
        read: Reads a value, from the name of the filter and the text; may raise a
            :class:`~mirror_server.core.errors.ApiError`. Values are texts without it.
    """

    name: str
    column: str
    read: Callable[[str, str], str | int] | None = None


@specifies
def device_fields() -> Sequence[DeviceField]:  # type: ignore[empty-body]
    """Fields that the directory filters devices by: in parameters, ``filter=``, saved queries and the description.

    Called once. All operators of the directory are possible.
    """


@specifies
def device_filters() -> Sequence[Parameter]:  # type: ignore[empty-body]
    """What :func:`device_conditions` reads, in the description of the interface."""


@specifies
def described_besides() -> Mapping[str, tuple[Sequence[ResponseSpec], Sequence[Parameter]]]:  # type: ignore[empty-body]
    """Responses and parameters that it adds to the description of operations of others, by ``operationId``.

    A response takes the place of the one with the same status.
    """


@specifies
def describe_devices(  # type: ignore[empty-body]
    session: Session, devices: Sequence[DeviceRow]
) -> Mapping[str, Mapping[str, Any]]:
    """Members of devices in the directory, by device id, that stand in the place of the server's or beside them.

    Called in the transaction that reads the devices. A program that sends a whole device back sends them too: the
    directory takes them as they are, and refuses others.
    """


@specifies(firstresult=True)
def rules_put() -> Callable[[Session, str], Future[None] | None] | None:
    """Read the query of a request that puts presubscription rules; without this hook it must have none.

    Returns a function that is called in the transaction that stores them, with the application. The response waits for
    the future that it gives, if any.
    """


@specifies(firstresult=True)
def snapshot_at(
    instant: Instant,
    conditions: Sequence[Condition],
    patterns: Sequence[str],
    form: str,
    compression: Compression,
) -> Response | None:
    """The fleet snapshot as of an earlier instant, of the devices that meet all conditions.

    Args:
        instant: When.
        conditions: Which devices.
        patterns: Which of their resources, by path; all without any.
        form: The content type.
        compression: That of the buffers of an Arrow stream.
    """


class Extensions:
    """The extensions of one server.

    Args:
        without: The names of those to leave out.

    Attributes:
        left_out: The names of those that are not there, and why.

    Raises:
        CannotServe: There is no extension of such a name, or one of another package cannot be loaded.
    """

    def __init__(self, without: Collection[str] = ()) -> None:
        self._manager = pluggy.PluginManager(_PROJECT)
        self._manager.add_hookspecs(importlib.import_module(__name__))
        self.left_out: dict[str, str] = {}
        for name in without:
            if name not in installed():
                raise CannotServe(f"--without {name}: there is no such extension; there are {', '.join(installed())}")
        for name, extension in installed().items():
            if name in without:
                self.left_out[name] = "--without names it"
            elif isinstance(extension, Broken):
                raise CannotServe(f"{extension.why}; mend or uninstall it, or leave it out with --without {name}")
            elif missing := _missing(name, extension):
                self.left_out[name] = missing
            else:
                self.add(extension, name)

    @property
    def hook(self) -> pluggy.HookRelay:
        """Calls a hook of all extensions, by its name."""
        return self._manager.hook

    @property
    def storages(self) -> list[Storage]:
        """What they store, in the order of their names.

        Raises:
            CannotServe: Two of them have a branch of the same name.
        """
        found = list(self.each("storage"))
        names = [(f"storage branch {storage.branch.name}", whose) for whose, storage in found]
        require_distinct([("storage branch core", SERVER), *names])
        return [storage for _, storage in found]

    @property
    def names(self) -> list[str]:
        """Those that are loaded, in order."""
        return [name for name in installed() if self._manager.has_plugin(name)]

    def add(self, extension: object, name: str | None = None) -> None:
        """Have the hooks of a module, or of an object that belongs to one server.

        Raises:
            CannotServe: One of them is none that there is, or takes something else.
        """
        kind = type(extension)
        name = name or f"{extension_of(kind.__module__) or kind.__module__} ({kind.__name__})"
        misfit = f"the extension {name} does not fit this version of the server"
        try:
            self._manager.register(extension, name)
        except (pluggy.PluginValidationError, ValueError) as error:
            raise CannotServe(f"{misfit}: {error}") from error
        hooks = [hook for hook, caller in vars(self.hook).items() if caller.has_spec()]
        for caller in self._manager.get_hookcallers(extension) or ():
            if caller.name not in hooks:
                (marked,) = caller.get_hookimpls()
                near = get_close_matches(caller.name, hooks, 1)
                cure = f"did you mean {near[0]}?" if near else "'mirror-server help extensions' names all"
                raise CannotServe(f"{misfit}: {marked.function.__name__}() is marked as a hook {caller.name}; {cure}")

    def each(self, hook: str) -> Iterator[tuple[str, Any]]:
        """What a hook without arguments gives, by the name of the extension, in the order of these names."""
        for each in getattr(self.hook, hook).get_hookimpls():
            if (found := each.function()) is not None:
                yield f"the extension {each.plugin_name}", found

    def collected(self, hook: str) -> tuple[Callable[..., Any], ...]:
        """The functions behind a hook, for where it is called too often for anything in between; by position.

        Raises:
            CannotServe: One of them does not take all arguments.
        """
        caller = getattr(self.hook, hook)
        found = caller.get_hookimpls()[::-1]
        for each in found:
            if each.argnames != caller.spec.argnames:
                wanted = ", ".join(caller.spec.argnames)
                raise CannotServe(f"the hook {hook} of {each.plugin_name} does not take all of {wanted}")
        return tuple(each.function for each in found)

    def check(self, settings: Settings) -> None:
        """Refuse a setting of an extension that is left out, a database that it opens, and two settings of one name.

        Raises:
            CannotServe: There is one.
        """
        kinds = [(SERVER, Settings)]
        for name, extension in installed().items():
            kinds += [(f"the extension {name}", kind) for kind in _called(extension, "settings")]
        names = [(name, SERVER) for name in ("setting host", "option --host", "setting port", "option --port")]
        for whose, kind in kinds:
            for each in fields(kind):
                names += [(f"setting {each.name}", whose), (f"option {option_name(each)}", whose)]
        require_distinct(names)
        scheme = settings.database_url.partition("://")[0]
        for name, why in self.left_out.items():
            for schemes in _called(installed()[name], "locations"):
                if scheme in schemes:
                    url = shown(settings.database_url)
                    raise CannotServe(f"the database {url} takes the extension {name}, which is left out: {why}")
            for kind in _called(installed()[name], "settings"):
                given = settings.of(kind)
                for each in fields(kind):
                    if getattr(given, each.name) != each.default:
                        option = option_name(each)
                        raise CannotServe(f"{option} is of the extension {name}, which is left out: {why}")


class Broken(NamedTuple):
    """An extension of another package that cannot be loaded, and why."""

    why: str


@cache
def installed() -> Mapping[str, ModuleType | Broken]:
    """All extensions there are, by name, whether they are to be loaded or not; what opens databases is known then."""
    found: dict[str, ModuleType | Broken] = {}
    if find_spec(_GROUP) is not None:
        package = importlib.import_module(_GROUP)
        for each in pkgutil.iter_modules(package.__path__):
            if each.ispkg:
                found[each.name] = importlib.import_module(f"{_GROUP}.{each.name}")
    for point in entry_points(group=_GROUP):
        if point.name in found:
            found[point.name] = Broken(f"two extensions are called {point.name}, one of them {point.value}")
            continue
        try:
            found[point.name] = point.load()
        except Exception as error:
            found[point.name] = Broken(f"the extension {point.name} ({point.value}) cannot be loaded: {error}")
    for extension in found.values():
        for added in _called(extension, "locations"):
            LOCATIONS.update(added)
    return dict(sorted(found.items()))


def require_distinct(names: Iterable[tuple[str, str]]) -> None:
    """Refuse two names that are the same, as ``setting port``; each comes with whose it is.

    Raises:
        CannotServe: There are two.
    """
    taken: dict[str, str] = {}
    for name, whose in names:
        if name in taken:
            raise CannotServe(f"{taken[name]} and {whose} both have the {name}; rename one of them")
        taken[name] = whose


def extension_of(module: str) -> str:
    """The name of the extension that a module is part of; empty where it is of none."""
    for attribute in ("__name__", "__package__"):
        for name, extension in installed().items():
            if f"{module}.".startswith(f"{getattr(extension, attribute, None) or '?'}."):
                return name
    return ""


def failed_in(error: BaseException) -> str:
    """The name of the extension in whose code an exception was raised; empty where it was in none."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    return next(filter(None, (extension_of(frame.f_globals.get("__name__", "")) for frame in frames[::-1])), "")


def of_all(hook: str) -> list[Any]:
    """What a hook that is called before there is a server gives, of every extension that is installed."""
    return [found for extension in installed().values() for found in _called(extension, hook)]


def of_commands() -> Extensions:
    """The extensions for commands on a database, with those that a missing package keeps out of a server.

    What they have stored is checked and erased all the same.

    Raises:
        CannotServe: One of them does not fit.
    """
    extensions = Extensions()
    for name in extensions.left_out:
        extensions.add(installed()[name], name)
    return extensions


def open_database(url: str, *, must_exist: bool = False, keep_schema: bool = False) -> Database:
    """Open a database with all that the extensions that are installed store in it.

    Raises:
        DatabaseError: See :class:`Database`.
    """
    from mirror_server.store.database import Database  # noqa: PLC0415 - the help of the commands needs none

    return Database(url, of_commands().storages, must_exist=must_exist, keep_schema=keep_schema)


def read_settings(**values: Any) -> Settings:
    """The settings of a server and its extensions, each by the name of its field."""
    extensions = []
    for kind in of_all("settings"):
        names = [each.name for each in fields(kind)]
        extensions.append(kind(**{name: values.pop(name) for name in names if name in values}))
    return Settings(**values, extensions=tuple(extensions))


def _called(extension: ModuleType | Broken, hook: str) -> list[Any]:
    return [getattr(extension, hook)()] if hasattr(extension, hook) else []


def _missing(name: str, extension: ModuleType) -> str:
    """Why an extension is left out: the first module that it needs and that is not there; empty for none."""
    module = next((each for needed in _called(extension, "needs") for each in needed if find_spec(each) is None), None)
    if module is None:
        return ""
    if not extension.__name__.startswith(f"{_GROUP}."):
        return f"{module} is missing; pip install it"
    extra = name if name in (metadata("device-state-mirror").get_all("Provides-Extra") or ()) else "server"
    return f"{module} is missing; pip install 'device-state-mirror[{extra}]'"
