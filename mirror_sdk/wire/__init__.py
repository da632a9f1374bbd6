"""The JSON of the interface as pydantic models, its routes, paths and limits; shared by client and server."""
