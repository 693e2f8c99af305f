"""A stand-in for the features of speech of `bob.ap`, which a run on made features does not compute."""
