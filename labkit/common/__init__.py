"""What has no subject of its own: files, progress, colours."""
