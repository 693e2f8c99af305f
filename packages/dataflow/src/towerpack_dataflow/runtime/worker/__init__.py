"""What a worker does, in a process or a thread."""
