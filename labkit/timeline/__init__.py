"""A trace, and what follows from it: lanes, gaps, causes, words. Standard library, NumPy and SciPy only."""
