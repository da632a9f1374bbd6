"""The description of the interface in OpenAPI 3.1, made from the models the views use."""
