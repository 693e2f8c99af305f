"""One step of the training, or several, in one session call."""
