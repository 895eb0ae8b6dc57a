"""The exercises of the notebooks, one module each: what is asked, and the hint for each way of missing it."""

import importlib
import pkgutil

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")  # importing registers its exercises
