"""Folders of any run: read into a table, and drawn."""
