"""The choice of tests that run on PostgreSQL too."""

from pathlib import Path

import databases


def test_tests_excluded_on_postgresql_exist() -> None:
    for name in databases.SAME_ON_EVERY_DATABASE:
        left_out = Path(__file__).parent / name
        assert left_out.is_dir() if name.endswith("/") else left_out.is_file(), name


def test_a_new_database_of_a_test_is_its_own(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    urls = [databases.new_database_url(tmp_path), databases.new_database_url(tmp_path / "other")]
    databases.execute(urls[0], "DELETE FROM mirror_schema")
    assert [len(databases.query(url, "SELECT * FROM mirror_schema WHERE branch = 'core'")) for url in urls] == [0, 1]
    assert databases.new_database_url(tmp_path) == urls[0] or databases.ON_POSTGRESQL
