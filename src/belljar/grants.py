"""What a sandbox is to be granted, checked before it is made. What few ask for is imported for those few."""

from __future__ import annotations

from dataclasses import replace

from belljar.policy import Policy
from belljar.settings import Settings


def checked_policy(policy: Policy, settings: Settings) -> Policy:
    """The policy with requirements and folders as they are understood.

    Raises:
        InvalidRequest: for an entry that has no clear meaning, or that the settings do not allow.
    """
    if not isinstance(policy.packages, str):
        policy = replace(policy, packages=checked_requirements(policy.packages, settings, "Policy(packages=...)"))
    if policy.network:
        from belljar.egress.rules import Rules

        Rules.parse(policy.network)
    if policy.mounts:
        from belljar.mounts import checked_mounts

        policy = replace(policy, mounts=checked_mounts(policy.mounts, settings))
    return policy


def checked_requirements(given: object, settings: Settings, what: str = "packages") -> tuple[str, ...]:
    """Requirements as they are understood.

    Raises:
        InvalidRequest: for what does not name a package.
    """
    if given is None or given == () or given == []:
        return ()
    from belljar.packages.requirements import check

    return check(given, what, settings.package_sources)
