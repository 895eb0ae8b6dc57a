"""A run becomes a trace."""
