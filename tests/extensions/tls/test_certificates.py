"""Tests of the expiry warning of the TLS certificate."""

from datetime import UTC, datetime, timedelta

import pytest
import trustme

from mirror_server.core.timestamps import from_datetime
from mirror_server.extensions.tls.certificate import Certificate

NOW = datetime(2026, 1, 5, 8, tzinfo=UTC)
WARNING = "--tls-cert {} {} at {:%Y-%m-%d %H:%M} UTC"


@pytest.fixture
def paths(tmp_path):
    return tmp_path / "cert.pem", tmp_path / "key.pem"


def write(paths, *ends):
    """Write a certificate chain with these expiry dates."""
    made = [trustme.CA().issue_cert("localhost", not_after=end) for end in ends]
    paths[0].write_bytes(b"".join(each.cert_chain_pems[0].bytes() for each in made))
    paths[1].write_bytes(made[0].private_key_pem.bytes())


def load(paths, now):
    return Certificate(*map(str, paths), now=lambda: from_datetime(now()))


@pytest.mark.parametrize(
    ("left", "word"),
    [
        (-400, "expired"),
        (-0.01, "expired"),
        (0, "expired"),
        (0.01, "expires"),
        (13.99, "expires"),
        (14, None),
        (36500, None),
    ],
)
def test_expiry_within_14_days_is_logged(paths, caplog, left, word):
    end = NOW + timedelta(days=left)
    write(paths, end)
    loaded = load(paths, lambda: NOW)
    # Beyond 2049 certificates have years of four digits.
    assert loaded.expires_at == end.replace(microsecond=0)
    assert [line.getMessage().partition(";")[0] for line in caplog.records if line.levelname == "WARNING"] == (
        [] if word is None else ["the certificate " + WARNING.format(paths[0], word, end)]
    )


def test_earliest_expiry_counts_and_is_logged_at_reload(paths, caplog):
    now = [NOW]
    far = NOW + timedelta(days=90)
    write(paths, far)
    loaded = load(paths, lambda: now[0])
    assert caplog.text == ""
    soon = NOW + timedelta(days=3)
    write(paths, far, soon)
    loaded.reload()
    assert loaded.expires_at == soon
    assert WARNING.format(paths[0], "expires", soon) in caplog.text
    caplog.clear()
    # A certificate that cannot be loaded is not logged: the previous one stays in use.
    paths[1].write_bytes(b"nonsense")
    loaded.reload()
    assert loaded.expires_at == soon
    assert "expires at" not in caplog.text
    write(paths, far)
    now[0] = far
    loaded.reload()
    assert WARNING.format(paths[0], "expired", far) in caplog.text
