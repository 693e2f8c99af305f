"""The base classes of all trainers: steps, towers, the builder that places them, and one cost."""
