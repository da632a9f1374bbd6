"""The options for CoAP addresses: their syntax, and the errors before a server starts."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
from contextlib import closing
from pkgutil import resolve_name

import click
import pytest
from click.testing import CliRunner
from operator_commands import assert_fails, assert_fails_in_one_line
from ports import free_port

from mirror_server.config import ListenAddress, Settings, options_of
from mirror_server.extensions.lwm2m.backend import LwM2MBackend
from mirror_server.extensions.lwm2m.settings import LwM2MSettings, check_listening, is_loopback
from mirror_server.extensions.lwm2m.transport_api import CannotListen
from mirror_server.hooks import read_settings, setting_classes
from mirror_server.server import Services
from mirror_server.web.serve import listen

HIDING = "import sys; sys.modules[{name!r}] = None; from mirror_server.cli import main; main()"


def read(*arguments: str, **environment: str) -> LwM2MSettings:
    found: list[Settings] = []

    @click.command()
    @options_of("run", *setting_classes())
    def command(**settings: object) -> None:
        found.append(read_settings(**settings))

    result = CliRunner().invoke(command, list(arguments), env=environment)
    if result.exit_code:
        raise ValueError(result.output)
    return found[0].of(LwM2MSettings)


def test_address_is_read_from_option_and_environment():
    for text, address in (
        ("127.0.0.1:5683", ("127.0.0.1", 5683)),
        ("127.0.0.1", ("127.0.0.1", 5683)),
        ("[::1]", ("::1", 5683)),
        ("[::]:0", ("::", 0)),
        ("[fe80::1%eth0]:5683", ("fe80::1%eth0", 5683)),
        ("0.0.0.0:65535", ("0.0.0.0", 65535)),
        ("mirror.example.org", ("mirror.example.org", 5683)),
    ):
        assert read("--coap", text).coap == read(MIRROR_COAP=text).coap == address, text
        assert str(ListenAddress(*address)).startswith(text.removesuffix("]"))


def test_default_settings_do_not_listen_and_ports_have_defaults():
    settings = read()
    assert (settings.coap, settings.coaps, settings.coap_insecure) == (None, None, False)
    assert settings.coap_awake_seconds == 93
    settings = read(MIRROR_COAP="127.0.0.1", MIRROR_COAPS="127.0.0.1")
    assert (settings.coap.port, settings.coaps.port) == (5683, 5684)


@pytest.mark.parametrize("text", ["", ":5683", "::1:5683", "1.2.3.4:", "1.2.3.4:x", "coap://h", "[::1", "*"])
def test_invalid_address_fails_with_the_syntax(text):
    with pytest.raises(ValueError, match=r"is not an address to listen on; write it like 127\.0\.0\.1:5683 or \[::1\]"):
        read("--coap", text)
    with pytest.raises(ValueError, match=r"65536 is not a port; use one up to 65535, or 0 for a free one"):
        read("--coaps", "127.0.0.1:65536")


def test_address_is_loopback_if_only_this_machine_reaches_it():
    for host in ("127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1", "localhost"):
        assert is_loopback(ListenAddress(host, 5683)), host
    for host in ("0.0.0.0", "::", "::ffff:192.0.2.1"):
        assert not is_loopback(ListenAddress(host, 5683)), host


def test_invalid_listen_options_fail_in_one_line_and_create_nothing(tmp_path):
    for arguments, sentence in (
        (["--coap=0.0.0.0"], "Error: plain CoAP on 0.0.0.0:5683 is rejected: "),
        (["--coap=[::]:5700"], "Error: plain CoAP on [::]:5700 is rejected: "),
        (["--coap=no.such.name.invalid"], "Error: cannot listen on no.such.name.invalid:5683: "),
    ):
        assert_fails_in_one_line(f"sqlite:///{tmp_path}/mirror.db", "run", "--port=0", *arguments, message=sentence)
        assert not list(tmp_path.iterdir())


def test_plain_coap_on_other_addresses_needs_coap_insecure():
    pytest.importorskip("aiocoap", reason="needs the extra lwm2m")
    beyond = ListenAddress("0.0.0.0", 5683)
    with pytest.raises(
        CannotListen, match=r"keys \('mirror-server run --coaps'\), or allow it with 'run --coap-insecure'"
    ):
        check_listening(read_settings(coap=beyond))
    check_listening(read_settings(coap=beyond, coap_insecure=True))


COMPILED = "it is compiled, which needs (on Debian) apt-get install autoconf automake gcc libc6-dev make python3-dev"


@pytest.mark.parametrize(
    ("hidden", "cure"),
    [
        ("aiocoap", "pip install 'device-state-mirror[lwm2m]'\n"),
        ("DTLSSocket", f"pip install 'device-state-mirror[lwm2m-dtls]'; {COMPILED}\n"),
    ],
)
def test_missing_extra_is_named(tmp_path, hidden, cure):
    arguments = ["run", "--port=0", f"--database=sqlite:///{tmp_path}/mirror.db", "--coaps=127.0.0.1:0"]
    program = [sys.executable, "-c", HIDING.format(name=hidden), *arguments]
    ended = subprocess.run(program, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 1
    assert ended.stderr.startswith("Error: ")
    assert cure in ended.stderr
    assert ended.stderr.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_port_in_use_fails_and_releases_everything(tmp_path):
    pytest.importorskip("aiocoap", reason="needs the extra lwm2m")
    url = f"sqlite:///{tmp_path}/mirror.db"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as in_use:
        in_use.bind(("127.0.0.1", 0))
        port, http_port = in_use.getsockname()[1], free_port()
        error = (
            f"Error: UDP port {port} of 127.0.0.1 is in use: stop the program that listens there, or use another port\n"
        )
        result = assert_fails(url, "run", f"--port={http_port}", f"--coap=127.0.0.1:{port}", message=error)
    assert "Serving" not in result.output
    listen("127.0.0.1", http_port).close()
    with closing(Services(read_settings(database_url=url))) as services:
        services.start()


def test_server_prints_coap_url_and_listens_there(tmp_path):
    pytest.importorskip("aiocoap", reason="needs the extra lwm2m")
    settings = read_settings(
        database_url=f"sqlite:///{tmp_path}/mirror.db", coap=ListenAddress("::", 0), coap_insecure=True
    )
    with closing(Services(settings)) as services:
        later = "Real devices: not listening until this process is the leader and the port is free"
        assert services.extensions.hook.device_address() == [later]
        services.start()
        (url,) = services.part(LwM2MBackend).urls()
        assert services.extensions.hook.device_address() == [f"Real devices: {url}"]
        found = re.fullmatch(r"coap://\[::\]:(\d+)", url)
        assert found
        for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
            with socket.socket(family, socket.SOCK_DGRAM) as pinging:
                pinging.settimeout(60)
                pinging.connect((address, int(found[1])))
                pinging.send(b"\x40\x00\x12\x34")
                assert pinging.recv(100) == b"\x70\x00\x12\x34", "the response to a ping is a reset"
    assert services.part(LwM2MBackend).urls() == []


@pytest.mark.with_extension("wsgi")
@pytest.mark.parametrize(
    ("environment", "sentence"),
    [
        ({"MIRROR_COAP": "0.0.0.0"}, "Error: plain CoAP on 0.0.0.0:5683 is rejected: "),
        ({"MIRROR_COAP": "here:there"}, "'here:there' is not an address to listen on; write it like 127.0.0.1:5683 or"),
        (
            {"MIRROR_COAP": "192.0.2.7", "MIRROR_COAP_INSECURE": "1"},
            "Error: 192.0.2.7 is not an address of this machine",
        ),
    ],
)
def test_wsgi_server_rejects_environment_with_the_same_errors(tmp_path, monkeypatch, capsys, environment, sentence):
    pytest.importorskip("aiocoap", reason="needs the extra lwm2m")
    url = f"sqlite:///{tmp_path}/mirror.db"
    for name, value in {"MIRROR_DATABASE": url, **environment}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit, match=r"^3$"):
        resolve_name("mirror_server.extensions.wsgi.app:create")()
    assert sentence in capsys.readouterr().err
    # Everything is closed: another server can open the database.
    with closing(Services(read_settings(database_url=url))) as services:
        services.start()
