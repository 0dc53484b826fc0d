"""The findings have their form, and the program that runs them prints a table. They do not run here: mirrors change."""

from __future__ import annotations

import os

import pytest

import findings

SCRIPTS = findings.find_scripts()


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_a_finding_says_in_eight_lines_what_it_shows_and_with_which_versions(script):
    lines = script.read_text(encoding="utf-8").splitlines()
    comment = list(lines[1 : lines.index('. "$(dirname "$(realpath "$0")")/common.sh"')])

    assert lines[0] == "#!/usr/bin/env bash"
    assert os.access(script, os.X_OK)
    assert all(line.startswith("# ") for line in comment)
    assert comment[0].startswith("# Expected: ")
    assert any(line.startswith("# Found: ") for line in comment)
    assert len(comment) <= 8
    assert findings.read_versions(script)
    assert "amd-ctk" not in "\n".join(lines)


def test_the_table_says_which_findings_hold_and_shows_those_that_do_not(tmp_path, monkeypatch, capsys):
    for name, code in (("holding", 0), ("other", 1), ("gone", 77)):
        path = tmp_path / f"{name}.sh"
        path.write_text(f"#!/bin/sh\n# program {code}.0, 2026-01-02.\necho seen {name}\nexit {code}\n")
        path.chmod(0o755)
    monkeypatch.setattr(findings, "DIRECTORY", tmp_path)

    assert findings.main([]) == 1
    assert capsys.readouterr().out == (
        "gone     could not run  program 77.0, 2026-01-02\n"
        "seen gone\n\n"
        "holding  holds          program 0.0, 2026-01-02\n"
        "other    changed        program 1.0, 2026-01-02\n"
        "seen other\n\n"
    )
    assert findings.main(["holding", "gone"]) == 0
