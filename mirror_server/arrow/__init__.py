"""Arrow streams. pyarrow is loaded with these modules, which are imported when the first stream is asked for."""
