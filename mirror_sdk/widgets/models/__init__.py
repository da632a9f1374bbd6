"""The models of the widgets. They contain the logic without ipywidgets; views display them and forward user input."""
