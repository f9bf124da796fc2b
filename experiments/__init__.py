"""The runs of the thesis: their settings, logs and figures."""
