"""How programs in a sandbox hear of the way out: variables that name the doorway, and what is reached without it."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from belljar_jail.wire import DOORWAY

ADDRESS = f"http://{DOORWAY[0]}:{DOORWAY[1]}"
OWN_NAMES = ("localhost", "127.0.0.1", "::1")


def variables(hosts: Sequence[str]) -> dict[str, str]:
    """What tells programs of the way out. The sandbox's own servers are reached directly, unless they are listed.

    `127.0.0.1:8000` in the list means the host's loopback, so what asks for 127.0.0.1 is sent to the proxy then.
    """
    direct = [name for name in OWN_NAMES if not any(_lists(entry, name) for entry in hosts)]
    return dict.fromkeys(("http_proxy", "https_proxy", "all_proxy"), ADDRESS) | {"no_proxy": ",".join(direct)}


def _lists(entry: str, name: str) -> bool:
    from ipaddress import ip_address, ip_network  # few sandboxes have a list

    bare = entry.rpartition("://")[2].rstrip("/").lower()
    for text in (bare, bare.rpartition(":")[0], bare.removeprefix("[").partition("]")[0]):
        with contextlib.suppress(ValueError):
            if text == name or ip_address(name) in ip_network(text):
                return True
    return False
