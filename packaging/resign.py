"""Renew the date and signature of a release's apt repository: python packaging/resign.py dist/repository KEY

apt refuses a server's repository after its Valid-Until, so that nobody can keep a machine on an old one. A job of the
forge runs this each week. Packages and indexes do not change.
"""

from __future__ import annotations

import sys
from pathlib import Path

from repositories import sign_apt

if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    sign_apt(Path(sys.argv[1]) / "apt", sys.argv[2], expires=True)
