"""What a callback is, when it acts, and what it may know of the loop."""
