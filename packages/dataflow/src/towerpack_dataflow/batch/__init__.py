"""Several datapoints into one."""
