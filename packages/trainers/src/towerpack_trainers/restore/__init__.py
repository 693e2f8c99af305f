"""Which values a run starts from."""
