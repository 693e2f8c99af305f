"""The layers themselves."""
