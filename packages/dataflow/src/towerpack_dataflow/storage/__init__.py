"""Memory that several processes read: shared memory, and long lists packed into it."""
