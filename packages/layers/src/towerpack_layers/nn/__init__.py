"""The layers that this wheel ships, and the costs of their weights."""
