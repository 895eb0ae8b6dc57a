"""The machinery of the lessons."""
