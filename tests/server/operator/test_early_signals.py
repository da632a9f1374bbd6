"""An interrupted start, or one with an address in use, ends cleanly with a fix."""

import signal

import pytest

from mirror_server.core.errors import CannotServe
from mirror_server.hooks import read_settings
from mirror_server.server import Services
from mirror_server.web.serve import listen, serve


@pytest.mark.parametrize("when", ["announced", "before", "after"])
@pytest.mark.parametrize("sig", [signal.SIGINT, signal.SIGTERM])
def test_signal_during_startup_stops_the_server_cleanly(tmp_path, monkeypatch, sig, when):
    services = Services(read_settings(database_url=f"sqlite:///{tmp_path}/mirror.db", manual_clock=True))
    handlers = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}
    start, close, steps = services.start, services.close, []

    def interrupted_start():
        if when == "before":
            signal.raise_signal(sig)
        start()
        steps.append("started")
        if when == "after":
            signal.raise_signal(sig)

    def noted_close():
        signal.raise_signal(sig)
        close()
        steps.append("closed")

    monkeypatch.setattr(services, "start", interrupted_start)
    monkeypatch.setattr(services, "close", noted_close)
    with listen("127.0.0.1", 0) as listener:
        serve(services, listener, announce=lambda _: signal.raise_signal(sig) if when == "announced" else None)
    assert steps == ["started", "closed"]
    assert {each: signal.getsignal(each) for each in handlers} == handlers


@pytest.mark.parametrize(
    ("host", "message"),
    [
        ("127.0.0.1", "Address already in use; choose another port with --port$"),
        ("192.0.2.1", "Cannot assign requested address; choose an address of this machine with --host$"),
    ],
)
def test_unavailable_address_error_names_the_option(host, message):
    with listen("127.0.0.1", 0) as listener, pytest.raises(CannotServe, match=message):
        listen(host, listener.getsockname()[1])
