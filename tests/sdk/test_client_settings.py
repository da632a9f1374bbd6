"""Where a client finds its address and its key, and what it refuses."""

import pytest

from mirror_sdk.config import Settings, read_base_url
from mirror_sdk.errors import ConfigError

KEY = "ak_0123_secret"


@pytest.mark.parametrize(
    ("given", "full"),
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
def test_an_address_gets_its_full_form(given, full):
    assert read_base_url(given) == full


@pytest.mark.parametrize("address", ["", "http://", "ftp://x", "host:port", "https://x?a=1", "https://x#a"])
def test_what_is_no_address_is_refused_with_an_example(address):
    with pytest.raises(ConfigError, match=r"base_url .*https://mirror\.example\.com"):
        read_base_url(address)


def test_a_password_in_an_address_is_refused_and_not_shown():
    with pytest.raises(ConfigError) as refusal:
        read_base_url("ftp://me:hunter2@mirror.example.com")
    assert "hunter2" not in str(refusal.value)


def test_arguments_go_before_the_environment():
    environ = {"API_HOST": "from.environment", "API_KEY": "from_environment"}
    settings = Settings.load("localhost", KEY, environ)
    assert settings == Settings.of("localhost", KEY)


def test_what_is_not_given_comes_from_the_environment():
    settings = Settings.load(environ={"API_HOST": "mirror.example.com", "API_KEY": KEY})
    assert settings.base_url == "https://mirror.example.com"
    assert settings.api_key.get_secret_value() == KEY


@pytest.mark.parametrize(
    ("environ", "argument", "variable"),
    [({"API_KEY": KEY}, "base_url", "API_HOST"), ({"API_HOST": "localhost", "API_KEY": ""}, "api_key", "API_KEY")],
)
def test_what_is_missing_is_named_with_both_places(environ, argument, variable):
    with pytest.raises(ConfigError, match=f"(?=.*{argument}=)(?=.*{variable})") as refusal:
        Settings.load(environ=environ)
    assert KEY not in str(refusal.value)


@pytest.mark.parametrize("key", ["  ", "two words", "umläut", "line\nbreak", "tab\tbed"])
def test_a_key_that_no_header_can_carry_is_refused_and_not_shown(key):
    with pytest.raises(ConfigError) as refusal:
        Settings.of("localhost", key)
    assert key.strip() not in str(refusal.value) or not key.strip()


def test_settings_do_not_show_the_key():
    assert KEY not in repr(Settings.of("localhost", KEY))
