"""The tower context: what one replica of a model may know about itself."""
