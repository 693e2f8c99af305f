"""What every flow is: one pass, its position, its seeds and its state."""
