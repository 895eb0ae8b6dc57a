"""Several processes: tf.data service, and programs that train together; started, watched, recorded, killed for real."""
