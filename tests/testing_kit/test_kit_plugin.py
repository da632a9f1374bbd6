"""The plugin leaves alone who does not use it, and says what is missing to who does."""

import json

import pytest

HEAVY = {"flask", "mirror_server", "pandas", "pyarrow", "sqlalchemy", "alembic", "uvicorn", "orjson", "numpy"}


def test_a_project_that_does_not_use_the_kit_notices_nothing(
    pytester: pytest.Pytester, run_project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("API_HOST", "http://127.0.0.1:9")
    monkeypatch.setenv("API_KEY", "key")
    pytester.makeconftest("import pytest\n@pytest.fixture\ndef clock():\n    return 'theirs'")
    pytester.makepyfile(
        """
        import json, sys

        def test_own_fixture(clock):
            assert clock == 'theirs'

        def test_modules(pytestconfig):
            assert pytestconfig.pluginmanager.get_plugin("mirror") is sys.modules["mirror_sdk.testing.plugin"]
            print("LOADED", json.dumps(sorted({name.partition(".")[0] for name in sys.modules})))
        """
    )
    result = run_project("-q", "-s")
    result.assert_outcomes(passed=2)
    (line,) = [line for line in result.outlines if "LOADED" in line]
    assert set(json.loads(line.partition("LOADED")[2])) & HEAVY == set()


def test_without_the_server_a_fixture_says_what_to_install(pytester: pytest.Pytester, run_project) -> None:
    pytester.makeconftest("import sys\nsys.modules['flask'] = None")
    pytester.makepyfile("def test_one(mirror):\n    pass")
    result = run_project("-q")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(
        ['*ImportError: mirror_sdk.testing runs the server: pip install "device-state-mirror?server?"']
    )


def test_the_conformance_tests_say_when_no_server_is_named(run_project) -> None:
    result = run_project("-q", "--pyargs", "mirror_sdk.testing.conformance")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "API_HOST" in result.stdout.str() + result.stderr.str()
    assert "--mirror-url" in result.stdout.str() + result.stderr.str()


def test_the_conformance_tests_say_when_nobody_answers(run_project) -> None:
    result = run_project("-q", "--mirror-url=http://127.0.0.1:9", "--mirror-key=key")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "http://127.0.0.1:9" in result.stdout.str() + result.stderr.str()
