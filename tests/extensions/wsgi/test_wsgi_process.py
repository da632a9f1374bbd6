"""The process that creates the app for a WSGI server: its settings, and its forks."""

import os
import shlex
import subprocess

import databases
import pytest
from process_server import child_environment, run_python

pytestmark = pytest.mark.process


def run_program(program: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return run_python(*shlex.split(program), env=child_environment(**variables))


def test_invalid_setting_is_reported_in_one_line():
    ended = run_program(
        "-c 'from mirror_server.extensions.wsgi.app import create; create()'", MIRROR_KEEP_LOG_SECONDS="soon"
    )
    assert ended.returncode == 3
    assert "MIRROR_KEEP_LOG_SECONDS" in ended.stderr
    assert len(ended.stderr.splitlines()) == 1, ended.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="only where processes are forked")
def test_process_forked_after_the_app_was_made_rejects_requests(tmp_path):
    program = """
import logging, os, sys
from mirror_server.extensions.wsgi.app import create
logging.basicConfig(level=logging.ERROR)
app = create()
child = os.fork()
if not child:
    responses = [app.test_client().get(path) for path in ("/healthz", "/v3/devices")]
    print([(one.status_code, "create the app after the fork" in one.json["message"]) for one in responses])
    sys.exit(0)
os.waitpid(child, 0)
print(app.test_client().get("/readyz").status_code)
"""
    ended = run_program(f"-c {shlex.quote(program)}", MIRROR_DATABASE=databases.new_database_url(tmp_path))
    assert ended.stdout.splitlines() == ["[(503, True), (503, True)]", "200"], ended.stderr
    assert ended.stderr.count("forked") == 1
