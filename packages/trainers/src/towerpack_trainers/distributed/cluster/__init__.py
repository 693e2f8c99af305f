"""Who trains together, and how the processes are started."""
