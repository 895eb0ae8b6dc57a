"""Several processes for one input pipeline: tf.data service, started, watched, recorded and killed for real."""
