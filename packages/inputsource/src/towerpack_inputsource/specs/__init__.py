"""What a datapoint must look like, and the checks that hold it to that."""
