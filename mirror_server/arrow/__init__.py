"""Arrow streams, where pyarrow is installed: it is loaded with the modules of this package, and takes a moment."""
