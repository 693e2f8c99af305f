"""Reading a flow on a thread, ahead of the session."""
