"""Time spans in this process and its workers, and their trace file."""
