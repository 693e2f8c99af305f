"""Tables with typed columns: Parquet and Arrow, row by row."""
