"""What a release needs: the public names of each wheel, what has changed of them, the state of the tree."""
