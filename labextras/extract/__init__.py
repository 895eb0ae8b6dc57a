"""Sources that are no photos on a disk: an object store, tables and databases, checked and compared."""
