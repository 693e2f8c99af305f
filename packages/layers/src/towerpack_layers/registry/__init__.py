"""What makes a function a layer: its name, scope, default arguments and chains."""
