"""A folder for the path of child processes; Python runs `sitecustomize` in each of them."""
