"""Sources with a queue in the graph, filled by a thread or by the training."""
