"""File formats: reading, writing, random access."""

__all__: list[str] = []
