"""One blueprint for each part of the interface. A view reads the request, calls one operation, presents its result."""
