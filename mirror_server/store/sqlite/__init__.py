"""The SQLite database, a file that one process serves.

The package imports only the store's ``backend`` and the modules that ``backend`` needs. Read ``backend`` first.
"""
