"""Test support: pytest fixtures with a mirror in the process, faults, cassettes, and conformance tests.

Install the package with ``pip install "device-state-mirror[server]" pytest``. Then a test requests the fixtures by
name::

    def test_write_to_silent_light_times_out(mirror, clock, fleet, faults):
        light = next(device for device in fleet(6, seed=1) if device.endpoint_type == "Light")
        with faults.silence(light):
            request = mirror.client.requests.begin_write(light.id, "/3311/0/5850", True)
            clock.advance("10min")
            assert request.exception().category == "TIMEOUT"
        faults.drop("response", path="/v2/device-requests/*")
        mirror.client.write_value(light.id, "/3311/0/5850", True)
        faults.restart_server()
        assert mirror.client.get_device(light.id)["/3311/0/5850"].desired.status == 1

Fixtures
--------

- ``mirror`` is a :class:`Mirror`: the real server in the process of the test, on a database of its own. Its clients
  connect without a network. Nothing is mocked, and nothing sleeps.
- ``clock`` is its time, which stands still until you advance it (:class:`Clock`).
- ``fleet(n, seed)`` adds simulated devices (:class:`FleetDevice`).
- ``faults`` injects failures (:class:`Faults`): ``drop``, ``delay``, ``duplicate``, ``reorder``, ``reject``,
  ``silence`` and ``restart_server``. Notification faults act on long polling; a webhook is called over real HTTP and
  bypasses them.

These names are short for ``mirror_in_process``, ``mirror_clock``, ``mirror_fleet`` and ``mirror_faults``. If your
project already has a fixture with a short name, yours is used; request ours by its long name. Our fixtures depend on
long names only, and nothing is loaded before a fixture is requested. To run all of them on a mirror of your own,
override ``mirror_in_process``. ``Mirror(folder, keep_log_seconds=60)`` is one with other settings, also of extensions.
All installed extensions are loaded.

Cassettes
---------

A test does not need a service if you have a cassette of it (:mod:`mirror_sdk.cassette`)::

    @pytest.mark.mirror_cassette("cassettes/fleet.zip")
    def test_the_report(mirror_cassette):
        assert make_report(mirror_cassette).rows == 12

The path is relative to the file of the test. ``mirror_cassette`` is a client. The first run uses the service of
``API_HOST`` and ``API_KEY``, and records it unless the test fails. Later runs do not contact the service.

``--mirror-cassettes=record`` records again. ``replay`` never contacts the service, for example in CI. ``none`` always
uses the service. ``mirror_cassette_file`` is the path alone, for ``AsyncMirrorClient.from_cassette``.

Conformance tests
-----------------

The package contains tests of the interface for any server. Use a key of their own if you can::

    pytest --mirror-url=http://127.0.0.1:8080 --mirror-key=ak_...

Or set ``API_HOST`` and ``API_KEY`` and run ``pytest --pyargs mirror_sdk.testing.conformance``. Tests of extensions that
the server does not have are skipped with the reason; ``-rs`` shows it.
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

# Loaded when they are first used: pytest loads this package with the plugin in it, in every project.
_MODULES = {"Clock": "clock", "Fault": "fault", "Faults": "faults", "FleetDevice": "device", "Mirror": "mirror"}

if not TYPE_CHECKING:  # which would believe that there are names of any spelling

    def __getattr__(name: str) -> object:
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name, obj=sys.modules[__name__])
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
