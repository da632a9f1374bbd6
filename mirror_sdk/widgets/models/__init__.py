"""The models of the widgets. They decide, without ipywidgets; a view shows a model and passes on what people do."""
