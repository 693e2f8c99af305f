"""Replicas of a model: their description, construction, differentiation and placement."""
