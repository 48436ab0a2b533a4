"""Attack the packet reader with seeded mutations and count what came of them.

``python -m tests.packet.attack [--count 1000] [--first 0] [--json FILE]``; exit code 1 if anything else than a typed
error, a right read or a finding of ``verify`` came of one.
"""

import argparse
import json
import sys
from collections import Counter
from dataclasses import asdict
from pathlib import Path

from tests.packet.attack.case import FAULT
from tests.packet.attack.run import attack


def main() -> int:
    """Run, and print counts by outcome and every fault."""
    parser = argparse.ArgumentParser(description="attack the packet reader")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--json", type=Path, default=None)
    options = parser.parse_args()
    verdicts = attack(options.first, options.count)
    if options.json is not None:
        options.json.write_text(json.dumps([asdict(verdict) for verdict in verdicts], indent=1))
    for verdict in verdicts:
        if verdict.outcome == FAULT:
            sys.stdout.write(f"{verdict}\n")
    for outcome, count in Counter(verdict.outcome for verdict in verdicts).most_common():
        sys.stdout.write(f"{count:6} {outcome}\n")
    kinds = {verdict.kind for verdict in verdicts}
    sys.stdout.write(f"{len(verdicts):6} mutations of {len(kinds)} kinds\n")
    return any(verdict.outcome == FAULT for verdict in verdicts)


if __name__ == "__main__":
    sys.exit(main())
