"""TensorFlow Lite files: read, written, and given other shapes."""
