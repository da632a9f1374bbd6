"""For all tests."""

from hypothesis import settings

# How long an example takes says more about the machine than about the code.
settings.register_profile("mirror", deadline=None)
if settings.get_current_profile_name() == "default":
    settings.load_profile("mirror")
