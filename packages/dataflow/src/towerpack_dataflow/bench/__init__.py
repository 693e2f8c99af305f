"""How fast a flow is, and which part of it is slow."""
