"""The options for CoAP over DTLS, and the errors before a server starts."""

from __future__ import annotations

import logging

import pytest
from operator_commands import assert_fails_in_one_line

from mirror_server.config import ListenAddress
from mirror_server.extensions.lwm2m.settings import check_listening
from mirror_server.hooks import read_settings


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--coap=127.0.0.1:5700", "--coaps=127.0.0.1:5700"], "Error: --coap and --coaps cannot both listen on "),
        (["--coaps=no.such.name.invalid"], "Error: cannot listen on no.such.name.invalid:5684: "),
    ],
)
def test_invalid_listen_options_fail_in_one_line_and_create_nothing(tmp_path, arguments, sentence):
    path = tmp_path / "mirror.db"
    assert_fails_in_one_line(f"sqlite:///{path}", "run", "--port=0", *arguments, message=sentence)
    assert not path.exists()


def test_dtls_can_listen_on_all_addresses():
    check_listening(read_settings(coaps=ListenAddress("0.0.0.0", 5684)))


@pytest.mark.sqlite
def test_database_with_keys_readable_by_others_is_logged_at_start(tmp_path, caplog):
    path = tmp_path / "mirror.db"
    path.touch(mode=0o600)
    settings = read_settings(database_url=f"sqlite:///{path}", coaps=ListenAddress("127.0.0.1", 0))
    with caplog.at_level(logging.WARNING):
        check_listening(settings)
        assert not caplog.text
        path.chmod(0o644)
        check_listening(settings)
    assert f"other users can read the keys of devices; run: chmod 600 {path}" in caplog.text
