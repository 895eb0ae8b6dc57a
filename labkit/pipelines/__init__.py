"""What a pipeline is, and whether it is right."""
