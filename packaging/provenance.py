"""Write the commit and the builder of a release, as an in-toto statement with SLSA's predicate (version 1).

The signed SHA256SUMS has the digest of the statement, which has the digests of all files.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from bundle import BUILDER_FILE, LOCK_FILE, digest_of
from packages import ROOT, read_version

STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "https://slsa.dev/provenance/v1"
# The project has no public address yet, and nobody can ever own one below .invalid (RFC 2606).
PROJECT = "https://container-toolkit.invalid"


def write_provenance(path: Path, files: list[Path]) -> None:
    """Write the statement about these files; the same commit gives the same bytes."""
    commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
    sources = [{"uri": PROJECT, "digest": {"gitCommit": commit.stdout.strip()}}]
    locks = [{"uri": lock.name, "digest": {"sha256": digest_of(lock)}} for lock in (LOCK_FILE, BUILDER_FILE)]
    statement = {
        "_type": STATEMENT,
        "subject": [{"name": file.name, "digest": {"sha256": digest_of(file)}} for file in files],
        "predicateType": PREDICATE,
        "predicate": {
            "buildDefinition": {
                "buildType": f"{PROJECT}/nox-release",
                "externalParameters": {"version": read_version()},
                "resolvedDependencies": sources + locks,
            },
            "runDetails": {"builder": {"id": f"{PROJECT}/packaging/release.py"}},
        },
    }
    path.write_text(json.dumps(statement, indent=2) + "\n", encoding="utf-8")
