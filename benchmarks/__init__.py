"""The figures of this machine: Belljar and its peers, measured in turns in one run. No test depends on a time."""
