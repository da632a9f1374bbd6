"""The server under gunicorn, waitress or any WSGI server with threads, configured by environment variables."""
