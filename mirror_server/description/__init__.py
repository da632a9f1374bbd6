"""The description of the interface in OpenAPI 3.1, made from the views and the models they use."""
