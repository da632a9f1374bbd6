"""The databases of the tests: which tests run on PostgreSQL too."""

from pathlib import Path

import databases


def test_what_is_left_out_on_postgresql_is_there() -> None:
    for place in databases.SAME_ON_EVERY_DATABASE:
        left_out = Path(__file__).parent / place
        assert left_out.is_dir() if place.endswith("/") else left_out.is_file(), place


def test_a_new_database_of_a_test_is_its_own(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    urls = [databases.new_database_url(tmp_path), databases.new_database_url(tmp_path / "other")]
    databases.execute(urls[0], "DELETE FROM mirror_schema")
    assert [len(databases.query(url, "SELECT * FROM mirror_schema WHERE branch = 'core'")) for url in urls] == [0, 1]
    assert databases.new_database_url(tmp_path) == urls[0] or databases.ON_POSTGRESQL
