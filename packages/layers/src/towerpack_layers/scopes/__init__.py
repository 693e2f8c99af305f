"""Context managers that change the variables and names created within them."""
