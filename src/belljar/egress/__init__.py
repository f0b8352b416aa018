"""The allow-list proxy on the host: what a sandbox may reach, on every engine. Knows nothing of engines."""

from belljar.egress.caps import Caps
from belljar.egress.fetch import Response
from belljar.egress.line import Connection
from belljar.egress.refusals import Refused, Unreachable, Untrusted
from belljar.egress.rules import Rules
from belljar.egress.server import Egress

__all__ = ["Caps", "Connection", "Egress", "Refused", "Response", "Rules", "Unreachable", "Untrusted"]
