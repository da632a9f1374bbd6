"""The JSON objects of the interface as pydantic models, its routes, paths and limits. Client and server share them."""
