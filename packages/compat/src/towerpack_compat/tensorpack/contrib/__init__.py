"""`tensorpack.contrib`: parts that connect to other libraries."""
