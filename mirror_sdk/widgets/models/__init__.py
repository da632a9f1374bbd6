"""What the widgets know and decide, without ipywidgets: a view only shows a model and passes on what people do."""
