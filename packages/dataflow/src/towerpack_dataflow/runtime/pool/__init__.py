"""The workers of one flow, as the consumer controls them."""
