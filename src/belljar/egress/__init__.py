"""The allow-list proxy on the host: what a sandbox may reach, on every engine. Knows nothing of engines."""
