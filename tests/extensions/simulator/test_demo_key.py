"""The key of a demo is stored next to its database, readable by its owner only, and used while it is valid."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror_server.core.errors import ApiError
from mirror_server.extensions.simulator import demo_key
from mirror_server.extensions.simulator.demo_key import KeyFileError, distrusted, stored_key
from mirror_server.hooks import open_database
from mirror_server.service import keys
from mirror_server.service.keys import Authenticator, Scope
from mirror_server.store import keys as stored_keys

pytestmark = pytest.mark.sqlite

NOW = 1_800_000_000_000
DAY = 24 * 3600 * 1000
ELSEWHERE = f"ak_0123456789abcdef_{'x' * 43}"


class Demo:
    """A demo: its database URL, the database file, and the key file."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "mirror.db"
        self.file = folder / "mirror.db.key"
        self.database = open_database(f"sqlite:///{self.path}")

    def start(self) -> demo_key.DemoKey:
        return stored_key(self.database, self.path, NOW)

    def admits(self, key: str, at: int = NOW) -> bool:
        try:
            identity = Authenticator(self.database, 1000, now=lambda: at).authenticate(f"Bearer {key}", lambda: "")
        except ApiError:
            return False
        return identity.scopes == frozenset(Scope)

    def all_keys(self) -> list[stored_keys.StoredKey]:
        return self.database.query(stored_keys.list_all)

    def revoke(self, key: str) -> bool:
        return self.database.write(lambda session: stored_keys.revoke(session, app_of(key), NOW))


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[Demo]:
    made = Demo(tmp_path)
    yield made
    made.database.close()


def app_of(key: str) -> str:
    return key.split("_")[1]


def test_second_start_reuses_the_key(demo, tmp_path):
    first, second = demo.start(), demo.start()
    assert first == second
    assert demo.admits(first.key)
    assert (str(demo.file) in first.note, first.problem) == (True, "")
    assert len(demo.all_keys()) == 1
    assert [path.name for path in tmp_path.iterdir() if "key" in path.name] == ["mirror.db.key"]


def test_key_file_is_private_for_every_umask(demo):
    before = os.umask(0)
    try:
        demo.start()
    finally:
        os.umask(before)
    assert stat.S_IMODE(demo.file.stat().st_mode) == 0o600


def test_new_database_adopts_existing_key(demo, tmp_path):
    key = demo.start().key
    (tmp_path / "other").mkdir()
    other = Demo(tmp_path / "other")
    demo.file.rename(other.file)
    assert other.start().key == key
    assert other.admits(key)
    other.database.close()


def test_removed_key_file_renews_key_of_same_application(demo):
    old = demo.start().key
    demo.file.unlink()
    key = demo.start().key
    assert (app_of(key), demo.admits(old), demo.admits(key)) == (app_of(old), False, True)


def test_revoked_key_stays_invalid(demo):
    revoked = demo.start().key
    assert demo.revoke(revoked)
    new = demo.start()
    assert app_of(new.key) != app_of(revoked)
    assert (demo.admits(revoked), demo.admits(new.key)) == (False, True)
    assert "was revoked" in new.problem
    assert demo.start() == new._replace(problem="")
    assert demo.revoke(new.key)
    demo.file.unlink()
    assert app_of(demo.start().key) not in map(app_of, (revoked, new.key))


def test_renewed_key_is_renewed_again_and_valid_for_a_day(demo):
    old = demo.start().key
    of_operator = keys.renew(demo.database, app_of(old), 0, NOW)
    new = demo.start()
    assert app_of(new.key) == app_of(old)
    assert [demo.admits(key) for key in (old, of_operator, new.key)] == [False, True, True]
    assert [demo.admits(key, NOW + DAY) for key in (of_operator, new.key)] == [False, True]
    assert "was renewed elsewhere" in new.problem
    assert demo.start() == new._replace(problem="")


def holding(content: str, mode: int = 0o600) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        path.write_text(content)
        path.chmod(mode)

    return make


@pytest.mark.parametrize(
    ("make", "expected_message"),
    [
        (holding(""), r"does not contain the access key of this demo.*Remove the file"),
        (holding("ak_short\n"), "does not contain the access key"),
        (holding(f"{ELSEWHERE}\n{ELSEWHERE}"), "does not contain the access key"),
        (holding("x" * 5000), "does not contain the access key"),
        (holding(f"{ELSEWHERE}\n", 0o640), "other users can read the access key.*If you trust them, run: chmod 600"),
        (lambda path: path.symlink_to(path.with_name("mirror.db")), r"the file is a link\. Remove the file"),
        (lambda path: path.symlink_to(path.with_name("nothing")), r"the file is a link\. Remove the file"),
        (lambda path: os.mkfifo(path, 0o700), "is not a regular file"),
        (lambda path: path.mkdir(0o700), "is not a regular file"),
    ],
)
def test_untrusted_key_file_is_rejected_and_unchanged(demo, make, expected_message):
    make(demo.file)
    before = demo.file.lstat()
    with pytest.raises(KeyFileError, match=expected_message) as error_response:
        demo.start()
    assert ELSEWHERE not in str(error_response.value)
    assert demo.all_keys() == []
    assert demo.file.lstat()[:7] == before[:7]
    assert not demo.file.with_name("nothing").exists()


@given(st.integers(0, 0o777), st.booleans())
def test_only_private_file_of_this_user_is_trusted(mode, is_own):
    owner = os.geteuid() + (not is_own)
    status = os.stat_result([stat.S_IFREG | mode, 0, 0, 1, owner, 0, 0, 0, 0, 0])
    assert (distrusted(status, Path("key")) == "") == (is_own and mode & 0o077 == 0)


def test_key_that_cannot_be_stored_is_valid_with_warning(demo, tmp_path):
    # A file name with the suffix of the partial file would be too long.
    path = tmp_path / ("x" * 248)
    key, note, problem = stored_key(demo.database, path, NOW)
    assert (demo.admits(key), note) == (True, "")
    assert re.search("cannot store the key in .*the next start creates a new key", problem)


def test_link_to_database_has_same_key(demo, tmp_path):
    key = demo.start().key
    link = tmp_path / "linked.db"
    link.symlink_to(demo.path)
    assert stored_key(demo.database, link, NOW).key == key
