"""TFRecord files and their examples, without TensorFlow; needs the extra `[tfrecord]`."""
