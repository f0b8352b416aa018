"""A delegated control group from the user's systemd: the command that asks for it, and what that needs to know."""

from __future__ import annotations

import os
import shutil

BUS = ("XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS")


def command() -> list[str]:
    """What to put before a command so that the user's systemd runs it in a delegated scope; empty without systemd."""
    if os.getuid() == 0:
        return []
    runner = shutil.which("systemd-run")
    bus = os.environ.get("DBUS_SESSION_BUS_ADDRESS") or os.path.exists(f"/run/user/{os.getuid()}/bus")
    if runner is None or not bus:
        return []
    return [runner, "--user", "--scope", "--quiet", "--collect", "--property=Delegate=yes", "--"]


def environment() -> dict[str, str]:
    """The variables by which `systemd-run` finds the user's systemd; nothing of them goes further in."""
    return {"LANG": "C.UTF-8"} | {name: os.environ[name] for name in BUS if name in os.environ}
