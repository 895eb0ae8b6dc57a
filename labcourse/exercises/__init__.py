"""The exercises of the notebooks, one module each: what is asked, and the hint for each way of missing it."""
