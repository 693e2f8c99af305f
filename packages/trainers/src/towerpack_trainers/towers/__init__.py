"""Replicas of a model: their description, construction, differentiation, devices and session options."""
