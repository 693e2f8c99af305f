"""Replicas of a model: how one is described, built, differentiated and placed."""
