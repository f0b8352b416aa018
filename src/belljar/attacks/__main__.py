"""`python -m belljar.attacks ENGINE [ID ...]`: some attacks, one JSON object per line, for the security tests."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict

from belljar import attacks


def main(engine: str, *only: str) -> int:
    """Make the attacks and print each finding as it comes."""
    report = attacks.run(engine, only, tell=lambda finding: print(json.dumps(asdict(finding)), flush=True))
    return 0 if report.contained else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
