"""Sources that a thread fills through a queue in the graph."""
