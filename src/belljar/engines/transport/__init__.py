"""How a host speaks with a kernel: `frames`, one Request at a time (`exchange`), and descriptors (`link`)."""
