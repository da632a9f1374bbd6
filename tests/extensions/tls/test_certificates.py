"""The end of a certificate that the server speaks TLS with is told before clients refuse it."""

from datetime import UTC, datetime, timedelta

import pytest
import trustme

from mirror_server.core.instants import from_datetime
from mirror_server.extensions.tls.certificate import Certificate

NOW = datetime(2026, 1, 5, 8, tzinfo=UTC)
TOLD = "--tls-cert {} {} at {:%Y-%m-%d %H:%M} UTC"


@pytest.fixture
def paths(tmp_path):
    return tmp_path / "cert.pem", tmp_path / "key.pem"


def write(paths, *ends):
    """A certificate, and others behind it, that end then."""
    made = [trustme.CA().issue_cert("localhost", not_after=end) for end in ends]
    paths[0].write_bytes(b"".join(each.cert_chain_pems[0].bytes() for each in made))
    paths[1].write_bytes(made[0].private_key_pem.bytes())


def load(paths, now):
    return Certificate(*map(str, paths), now=lambda: from_datetime(now()))


@pytest.mark.parametrize(
    ("left", "word"),
    [(-400, "ended"), (-0.01, "ended"), (0, "ended"), (0.01, "ends"), (13.99, "ends"), (14, None), (36500, None)],
)
def test_one_that_has_ended_or_ends_within_14_days_is_told(paths, caplog, left, word):
    end = NOW + timedelta(days=left)
    write(paths, end)
    loaded = load(paths, lambda: NOW)
    # Beyond 2049 certificates have years of four digits.
    assert loaded.ends_at == end.replace(microsecond=0)
    assert [line.getMessage().partition(",")[0] for line in caplog.records if line.levelname == "WARNING"] == (
        [] if word is None else ["the certificate " + TOLD.format(paths[0], word, end)]
    )


def test_of_several_the_first_end_counts_and_another_is_told_when_it_is_loaded(paths, caplog):
    now = [NOW]
    far = NOW + timedelta(days=90)
    write(paths, far)
    loaded = load(paths, lambda: now[0])
    assert caplog.text == ""
    soon = NOW + timedelta(days=3)
    write(paths, far, soon)
    loaded.reload()
    assert loaded.ends_at == soon
    assert TOLD.format(paths[0], "ends", soon) in caplog.text
    caplog.clear()
    # One that cannot be used tells nothing of its own end: the one before is used on.
    paths[1].write_bytes(b"nonsense")
    loaded.reload()
    assert loaded.ends_at == soon
    assert "ends at" not in caplog.text
    write(paths, far)
    now[0] = far
    loaded.reload()
    assert TOLD.format(paths[0], "ended", far) in caplog.text
