"""The code of a worker, in a process or a thread."""
