"""Recording of tf.data through TensorFlow's profiler."""
