"""The routes of the extension: the scopes of which a key needs one, methods, paths."""

ACCESS = [((), "GET", "/openapi.json")]
