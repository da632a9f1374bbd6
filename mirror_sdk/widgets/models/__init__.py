"""The models of the widgets.

They contain the logic without ipywidgets. Views display the models and forward user input to them.
"""
