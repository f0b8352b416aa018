"""What outlives a host: which sandboxes there are, their checkpoints, and what was run in them."""
