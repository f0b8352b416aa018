"""What one sandbox may take of things that all sandboxes of this process share."""

from __future__ import annotations


def of_descriptors(share: int, fewest: int, most: int) -> int:
    """One in `share` of the files that this process may open, within bounds."""
    try:
        import resource
    except ImportError:
        return most
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return most if files < 0 else max(fewest, min(most, files // share))
