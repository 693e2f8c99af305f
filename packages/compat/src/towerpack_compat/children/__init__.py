"""A folder on the path of child processes; Python runs its `sitecustomize` in each of them."""
