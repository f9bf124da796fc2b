"""Questions asked of the method: a folder each, with code, data and page."""
