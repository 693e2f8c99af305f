"""What a trainer says of a running training."""
