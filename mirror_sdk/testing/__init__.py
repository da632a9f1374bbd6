"""What tests of programs that use a device state mirror need: fixtures for pytest, and faults to test against.

With the package installed (``pip install "device-state-mirror[server]" pytest``) a test just asks for the fixtures::

    def test_a_light_that_is_slow_to_answer(mirror, clock, fleet, faults):
        light = next(device for device in fleet(6, seed=1) if device.endpoint_type == "Light")
        with faults.silence(light):
            request = mirror.client.requests.begin_write(light.id, "/3311/0/5850", True)
            clock.advance("10min")
            assert request.exception().category == "TIMEOUT"
        faults.drop("answer", path="/v2/device-requests/*")
        mirror.client.write_value(light.id, "/3311/0/5850", True)
        faults.restart_server()
        assert mirror.client.get_device(light.id)["/3311/0/5850"].desired.status == 1

``mirror`` is a :class:`Mirror`: the real server on a database of its own in the process of the test, with clients that
reach it without a network. Nothing in it is mocked, nothing in it sleeps. ``clock`` is its time, which stands still
until it is advanced (:class:`Clock`); ``fleet(n, seed)`` adds simulated devices (:class:`FleetDevice`); ``faults``
makes things go wrong (:class:`Faults`): ``drop``, ``delay``, ``duplicate``, ``reorder``, ``reject``, ``silence`` and
``restart_server``. Faults of notifications act on long polling; a webhook is called over real HTTP, past them.

These names are short for ``mirror_in_process``, ``mirror_clock``, ``mirror_fleet`` and ``mirror_faults``. A project
that has a ``mirror``, ``clock``, ``fleet`` or ``faults`` of its own keeps it, and takes ours by the long name: nothing
of ours depends on a short one, and nothing is loaded before one is asked for. To have all of them work on a mirror that
is made otherwise, override ``mirror_in_process``.

A test of what a program makes of a service needs none where there is a cassette of it (:mod:`mirror_sdk.cassette`)::

    @pytest.mark.mirror_cassette("cassettes/fleet.zip")
    def test_the_report(mirror_cassette):
        assert make_report(mirror_cassette).rows == 12

The file is looked for beside that of the test. ``mirror_cassette`` is a client. The first time it is one of
``API_HOST`` and ``API_KEY``, and what the service says is recorded, unless the test fails; each time after that no
service is asked. ``--mirror-cassettes=record`` records anew, ``replay`` is for places without a service, ``none`` asks
the service. ``mirror_cassette_file`` is the path alone, for ``AsyncMirrorClient.from_cassette``.

The package also has tests of the interface itself, which any server can be held against, best with a key of their own::

    pytest --mirror-url=http://127.0.0.1:8080 --mirror-key=ak_...

(or ``pytest --pyargs mirror_sdk.testing.conformance`` with ``API_HOST`` and ``API_KEY`` set). What a server lacks of
the extensions is skipped with the reason; ``-rs`` shows it.
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mirror_sdk.testing.clock import Clock
    from mirror_sdk.testing.device import FleetDevice
    from mirror_sdk.testing.fault import Fault
    from mirror_sdk.testing.faults import Faults
    from mirror_sdk.testing.mirror import Mirror

__all__ = ["Clock", "Fault", "Faults", "FleetDevice", "Mirror"]

# Loaded when they are first asked for: pytest loads this package with the plugin in it, in every project.
_MODULES = {"Clock": "clock", "Fault": "fault", "Faults": "faults", "FleetDevice": "device", "Mirror": "mirror"}

if not TYPE_CHECKING:  # which would believe that there are names of any spelling

    def __getattr__(name: str) -> object:
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name, obj=sys.modules[__name__])
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
