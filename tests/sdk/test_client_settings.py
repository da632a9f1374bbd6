"""The sources of the address and the key of a client, and the rejection of invalid ones."""

import httpcore
import httpx
import pytest
from click.testing import CliRunner

from mirror_sdk import example_app
from mirror_sdk._protocol import proxy_and_tls_settings
from mirror_sdk.cli import main as mirror
from mirror_sdk.config import DEFAULT_BASE_URL, ClientSettings, read_base_url
from mirror_sdk.errors import AuthenticationError, ConfigError, ConnectionFailed
from mirror_server.cli import main as server_commands

KEY = "ak_0123_secret"


@pytest.mark.parametrize(
    ("address", "full"),
    [
        ("localhost:8080", "http://localhost:8080"),
        ("127.0.0.1:8080/", "http://127.0.0.1:8080"),
        ("[::1]:8080", "http://[::1]:8080"),
        ("lab.localhost", "http://lab.localhost"),
        ("mirror.example.com", "https://mirror.example.com"),
        ("10.0.0.7:8080/base/", "https://10.0.0.7:8080/base"),
        ("http://mirror.example.com", "http://mirror.example.com"),
        (" https://mirror.example.com ", "https://mirror.example.com"),
    ],
)
def test_an_address_gets_its_full_form(address, full):
    assert read_base_url(address) == full


NO_ADDRESSES = ["", "http://", "ftp://x", "host:port", "https://x?a=1", "https://x#a", "http://a b.com", "http://a\tb"]


@pytest.mark.parametrize("address", NO_ADDRESSES)
def test_an_invalid_address_is_rejected_with_an_example(address):
    with pytest.raises(ConfigError, match=r"base_url .*https://mirror\.example\.com"):
        read_base_url(address)


def test_a_password_in_an_address_is_rejected_and_not_displayed():
    with pytest.raises(ConfigError) as failure:
        read_base_url("ftp://me:hunter2@mirror.example.com")
    assert "hunter2" not in str(failure.value)


def test_arguments_go_before_the_environment():
    environ = {"API_HOST": "from.environment", "API_KEY": "from_environment"}
    assert ClientSettings.load("localhost", KEY, environ) == ClientSettings.of("localhost", KEY)
    assert KEY not in repr(ClientSettings.of("localhost", KEY))
    settings = ClientSettings.load(environ=environ)
    assert (settings.base_url, settings.api_key.get_secret_value()) == ("https://from.environment", "from_environment")


@pytest.mark.parametrize("environ", [{}, {"API_HOST": "localhost"}, {"API_HOST": "localhost", "API_KEY": ""}])
def test_a_missing_key_is_reported_with_both_ways_to_set_it(environ):
    with pytest.raises(ConfigError, match=r"(?=.*api_key=)(?=.*API_KEY)"):
        ClientSettings.load(environ=environ)


@pytest.mark.parametrize("environ", [{"API_KEY": KEY}, {"API_HOST": "", "API_KEY": KEY}])
def test_the_default_address_is_that_of_a_local_mirror(environ):
    assert ClientSettings.load(environ=environ).base_url == DEFAULT_BASE_URL


@pytest.mark.parametrize("command", ["run", "demo"])
def test_a_local_mirror_listens_on_the_default_address(command):
    options = {option.name: option.default for option in server_commands.commands[command].params}
    # The demo has no option for the host.
    assert f"http://{options.get('host', '127.0.0.1')}:{options['port']}" == DEFAULT_BASE_URL


@pytest.fixture
def no_mirror(monkeypatch, no_environment):
    """Let all connections of this machine fail, with no setting other than a key."""

    def fail_to_connect(*_args, **_kwargs):
        raise httpcore.ConnectError("[Errno 111] Connection refused")

    async def fail_to_connect_async(*_args, **_kwargs):
        fail_to_connect()

    monkeypatch.setattr(httpcore.ConnectionPool, "handle_request", fail_to_connect)
    monkeypatch.setattr(httpcore.AsyncConnectionPool, "handle_async_request", fail_to_connect_async)
    monkeypatch.setattr(proxy_and_tls_settings, "getproxies", dict)
    monkeypatch.setenv("API_KEY", KEY)


def check_message(message):
    for expected in (f"{DEFAULT_BASE_URL}/v", "is the mirror running?", "API_HOST", "mirror-server demo"):
        assert expected in message
    assert KEY not in message


@pytest.mark.both_clients
def test_without_a_server_both_clients_name_the_address(no_mirror, client_of):
    with pytest.raises(ConnectionFailed) as failure:
        client_of(DEFAULT_BASE_URL, KEY, max_retries=0).get_device("d")
    check_message(str(failure.value))
    with pytest.raises(ConnectionFailed, match=r"^((?!demo).)*$") as failure:
        client_of("http://127.0.0.1:9", KEY, max_retries=0).get_device("0" * 32)
    assert f"http://127.0.0.1:9/v3/devices/{'0' * 32}/echo: no response" in str(failure.value)
    assert str(failure.value).endswith("; is the mirror running? Check its address, API_HOST")


@pytest.mark.parametrize("program", [[mirror, "devices"], [example_app.main]])
def test_the_command_and_the_example_application_say_it_too(no_mirror, monkeypatch, program):
    monkeypatch.setenv("LONG_POLLING_ENABLED", "true")
    # The signal handlers of this process stay unchanged.
    monkeypatch.setattr("mirror_sdk.example_app.signal.signal", lambda *_: None)
    command, *arguments = program
    result = CliRunner().invoke(command, arguments)
    assert result.exit_code == 1
    check_message(result.stderr)


@pytest.mark.parametrize("key", ["  ", "two words", "umläut", "line\nbreak", "tab\tbed"])
def test_a_key_that_no_header_can_contain_is_rejected_and_not_displayed(key):
    with pytest.raises(ConfigError) as failure:
        ClientSettings.of("localhost", key)
    assert key.strip() not in str(failure.value) or not key.strip()


@pytest.mark.parametrize(
    ("url", "may_be_a_demo"),
    [("http://127.0.0.1:8080", True), ("localhost", True), ("https://mirror.example.com", False)],
)
def test_the_error_for_an_unknown_key_suggests_an_earlier_demo(client_of, url, may_be_a_demo):
    rejected = httpx.Response(401, json={"code": 401, "type": "invalid_auth", "message": "unknown"})
    client = client_of(url, KEY, transport=httpx.MockTransport(lambda _: rejected))
    for call in (lambda: client.devices.get("0" * 32), client.fleet.snapshot):
        with pytest.raises(AuthenticationError, match="unknown") as failure:
            call()
        assert ("'mirror-server demo' makes a new key at each start" in str(failure.value)) == may_be_a_demo
        assert failure.value.message == "unknown"
