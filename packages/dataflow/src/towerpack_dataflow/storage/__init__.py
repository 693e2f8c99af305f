"""Memory: aligned, shared between processes, and with long lists packed into it."""
