"""What is beyond the core: each folder is an extension, which may be absent.

An extension imports anything of the core, the modules next to the folders, which several extensions share, and another
extension only where the import contracts in ``pyproject.toml`` name it; the core imports none. Its ``__init__`` has its
hooks, and a docstring that is its topic of the manual where it has one. To learn how one is made begin with
:mod:`mirror_server.hooks`, then read ``page`` or ``apply``.
"""
