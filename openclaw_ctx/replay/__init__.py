"""A recorded session through an engine: what was measured, as a table and as a page."""
