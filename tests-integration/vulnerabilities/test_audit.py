"""`nox -s audit` finds the bundled wheels that a downloaded file of OSV knows a vulnerability of."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]
TOMLKIT = dict(re.findall(r"^(\S+)==(\S+)", (CHECKOUT / "packaging/bundle.lock").read_text(), re.MULTILINE))["tomlkit"]


def record(*events, **fields):
    """Return a made-up record of tomlkit."""
    affected = {
        "package": {"ecosystem": "PyPI", "name": "Tomlkit"},
        "ranges": [{"type": "ECOSYSTEM", "events": list(events)}],
    }
    return {
        "id": "MADE-UP-1",
        "modified": "2026-11-01T00:00:00Z",
        "summary": "A file makes it loop",
        "affected": [affected],
        **fields,
    }


def audit(tmp_path, content):
    file = tmp_path / "osv.json"
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    return run(file)


def run(file):
    words = [sys.executable, CHECKOUT / "packaging/audit.py", file]
    answer = subprocess.run(words, capture_output=True, text=True, check=False)
    return answer.returncode, answer.stdout + answer.stderr


def test_a_bundled_wheel_with_a_vulnerability_is_named_with_the_version_that_fixes_it(tmp_path):
    assert audit(tmp_path, record({"introduced": "0"}, {"fixed": "9.1"})) == (
        1,
        (
            f"tomlkit {TOMLKIT}: MADE-UP-1: A file makes it loop (fixed in 9.1)\n"
            "11 wheels, 1 records up to 2026-11-01T00:00:00Z: 1 found\n"
        ),
    )


@pytest.mark.parametrize(
    ("events", "found"),
    [
        ([{"introduced": "0"}, {"fixed": "0.1"}], 0),
        ([{"introduced": "0"}], 1),
        ([{"introduced": "9"}], 0),
        ([{"introduced": TOMLKIT}], 1),
        ([{"introduced": "0"}, {"fixed": TOMLKIT}], 0),
        ([{"introduced": "0"}, {"last_affected": TOMLKIT}], 1),
        ([{"introduced": "0"}, {"last_affected": "0.1"}], 0),
        ([{"fixed": "0.2"}, {"introduced": "0"}, {"introduced": "0.3"}, {"fixed": "9"}], 1),
    ],
)
def test_a_version_is_affected_between_the_events_of_a_range(tmp_path, events, found):
    code, said = audit(tmp_path, record(*events))

    assert (code, said.splitlines()[-1]) == (
        found,
        f"11 wheels, 1 records up to 2026-11-01T00:00:00Z: {found} found",
    )


def test_a_version_that_is_listed_is_affected(tmp_path):
    package = {"ecosystem": "PyPI", "name": "tomlkit"}
    listed = record(affected=[{"package": package, "versions": [TOMLKIT]}])

    assert audit(tmp_path, [listed]) == (
        1,
        (
            f"tomlkit {TOMLKIT}: MADE-UP-1: A file makes it loop (no version fixes it)\n"
            "11 wheels, 1 records up to 2026-11-01T00:00:00Z: 1 found\n"
        ),
    )


def test_a_zip_file_of_all_records_is_read(tmp_path):
    withdrawn = record({"introduced": "0"}, id="MADE-UP-2", withdrawn="2026-11-02T00:00:00Z")
    other = record(affected=[{"package": {"ecosystem": "PyPI", "name": "of-nobody"}}], id="MADE-UP-3")
    with ZipFile(tmp_path / "all.zip", "w") as archive:
        for content in (withdrawn, other):
            archive.writestr(f"{content['id']}.json", json.dumps(content))

    assert run(tmp_path / "all.zip") == (0, "11 wheels, 1 records up to 2026-11-01T00:00:00Z: 0 found\n")


@pytest.mark.parametrize("content", [[], {}, [{"id": "X", "affected": []}]])
def test_a_file_without_records_of_pypi_is_no_good_news(tmp_path, content):
    assert audit(tmp_path, content) == (2, f"{tmp_path}/osv.json has no record of the ecosystem PyPI\n")


def test_another_file_is_refused_in_a_sentence(tmp_path):
    code, said = audit(tmp_path, "<html>")

    assert (code, said.partition(": ")[0]) == (2, f"{tmp_path}/osv.json is no file of OSV")
