"""Tables in text files: CSV, JSON Lines, SVMLight; row by row."""
