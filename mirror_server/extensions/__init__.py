"""Extensions of the core: each folder is one, and can be deleted.

An extension may import the core and the modules in this folder, which several extensions share. It may import another
extension only if the import contracts in ``pyproject.toml`` list it. The core imports no extension.
The ``__init__`` of an extension contains its hooks. Its docstring is the manual's topic, if the extension has one.
To learn how to write an extension, start with :mod:`mirror_server.hooks`, then read ``page`` or ``apply``.
"""
