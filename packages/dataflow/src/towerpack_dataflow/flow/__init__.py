"""The core of every flow: one pass, its position, its seeds and its state."""
