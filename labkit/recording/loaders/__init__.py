"""Other loaders than tf.data: whatever can be iterated, watched in all its processes without a change to its code."""
