"""What a pipeline reads: photos, shards, storage."""
