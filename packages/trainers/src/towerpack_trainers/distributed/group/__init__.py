"""The processes of one training as a group: what they say to one another besides tensors."""
