"""The extensions of the core, each of which is a folder that can be deleted.

An extension may import the core and the modules in this folder, which several extensions share. It may import another
extension only if the import contracts in ``pyproject.toml`` list the import. The core imports no extension. The
``__init__`` of an extension contains its hooks. Its docstring is the topic of the manual, if the extension has one. To
learn how to write an extension, read :mod:`mirror_server.hooks` first, and then ``page`` or ``apply``.
"""
