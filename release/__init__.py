"""The parts of a release: the public names of each wheel, their changes, and the state of the tree."""
