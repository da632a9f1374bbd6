"""For all tests."""

from hypothesis import settings

# Tests of the test kit run pytest themselves.
pytest_plugins = ["pytester"]

# How long an example takes says more about the machine than about the code.
settings.register_profile("mirror", deadline=None)
if settings.get_current_profile_name() == "default":
    settings.load_profile("mirror")
