"""The report of a failed test."""

import pytest


def test_failure_shows_how_to_repeat_it_and_the_output_of_its_servers(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_mirror="""
        def test_fails(tmp_path):
            (tmp_path / "stderr.txt").write_text("a word of the server")
            assert False
        """
    )
    ended = pytester.runpytest_inprocess("-p", "failures", "-p", "no:cacheprovider")
    ended.stdout.fnmatch_lines(
        ["*Run it alone*", "python -m pytest test_mirror.py::test_fails", "*stderr.txt*", "a word of the server"]
    )
