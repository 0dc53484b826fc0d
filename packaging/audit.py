"""Compare the wheels that debs and rpms carry with known vulnerabilities. Example: python packaging/audit.py all.zip

Download the file first, because this program does not use the network: OSV (https://osv.dev) offers all records of the
ecosystem PyPI as all.zip. A JSON file with one record or a list of records works too.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import ZipFile, is_zipfile

from bundle import normal_name, read_lock
from packaging.version import InvalidVersion, Version

Record = dict[str, Any]
# OSV's events of a range, and whether versions after the event are affected.
LATER = {"introduced": True, "fixed": False, "last_affected": False}


class Finding(NamedTuple):
    """A vulnerability of a bundled wheel; `fixed` is the first version without it, "" if there is none."""

    name: str
    version: str
    identifier: str
    fixed: str
    summary: str

    def __str__(self) -> str:
        """Return a line for the terminal."""
        advice = f"fixed in {self.fixed}" if self.fixed else "no version fixes it"
        return f"{self.name} {self.version}: {self.identifier}: {self.summary or 'no summary'} ({advice})"


def main(file: Path) -> int:
    """Print the vulnerabilities of the bundle; return 0 without any, 1 with some, 2 if the file is unusable."""
    try:
        records = [record for record in read_records(file) if _affected_packages(record)]
    except (OSError, ValueError, AttributeError, TypeError) as error:
        print(f"{file} is no file of OSV: {error}", file=sys.stderr)
        return 2
    if not records:
        print(f"{file} has no record of the ecosystem PyPI", file=sys.stderr)
        return 2
    findings = find_vulnerabilities(read_lock(), records)
    for finding in findings:
        print(finding)
    newest = max(str(record.get("modified", "")) for record in records)
    print(f"{len(read_lock())} wheels, {len(records)} records up to {newest}: {len(findings)} found")
    return 1 if findings else 0


def read_records(file: Path) -> Iterator[Record]:
    """Yield the records in a zip file, or in a JSON file with one record or a list."""
    if is_zipfile(file):
        with ZipFile(file) as archive:
            for name in archive.namelist():
                yield json.loads(archive.read(name))
        return
    content = json.loads(file.read_text(encoding="utf-8"))
    yield from content if isinstance(content, list) else [content]


def find_vulnerabilities(versions: dict[str, str], records: list[Record]) -> list[Finding]:
    """Return the vulnerabilities of these versions of distributions, which are by name."""
    findings = []
    for record in records:
        for affected in _affected_packages(record):
            name = normal_name(affected["package"]["name"])
            if name in versions and _is_affected(versions[name], affected):
                fixed, summary = _first_fix(versions[name], affected), str(record.get("summary", ""))
                findings.append(Finding(name, versions[name], str(record["id"]), fixed, summary))
    return sorted(set(findings))


def _affected_packages(record: Record) -> list[Record]:
    """Return the PyPI packages that a record is about; none if the record was withdrawn."""
    if record.get("withdrawn"):
        return []
    return [affected for affected in record.get("affected", []) if affected["package"]["ecosystem"] == "PyPI"]


def _is_affected(version: str, affected: Record) -> bool:
    if version in affected.get("versions", []):
        return True
    return any(_is_in_range(Version(version), _events(span)) for span in affected.get("ranges", []))


def _is_in_range(version: Version, events: list[tuple[Version, str]]) -> bool:
    inside = False
    for limit, word in events:
        # The last affected version is itself affected.
        if version > limit or (version == limit and word != "last_affected"):
            inside = LATER[word]
    return inside


def _events(span: Record) -> list[tuple[Version, str]]:
    """Return the events of a range in the order of versions; none for a range of commits."""
    if span.get("type") != "ECOSYSTEM":
        return []
    pairs = [(word, text) for event in span["events"] for word, text in event.items() if word in LATER]
    try:
        return sorted((Version(text), word) for word, text in pairs)
    except InvalidVersion:
        # Such records list their versions one by one.
        return []


def _first_fix(version: str, affected: Record) -> str:
    events = [event for span in affected.get("ranges", []) for event in _events(span)]
    fixes = sorted(limit for limit, word in events if word == "fixed" and limit > Version(version))
    return f"{fixes[0]}" if fixes else ""


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(main(Path(sys.argv[1])))
