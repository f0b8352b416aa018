"""An engine without any wall, for tests alone: `belljar.testing` has it, and no other host of Belljar's does."""
