"""A stand-in for the package that Colab's kernel imports before the first cell: as much of it as a library can meet."""

from google.colab import output

__all__ = ["output"]
