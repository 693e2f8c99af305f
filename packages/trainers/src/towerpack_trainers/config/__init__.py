"""The configuration of a training, and of rehearsals of it."""
