"""Let the checks judge the facts that a bundle holds. Nothing of it is believed, and nothing is written."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from amd_ctk.doctor.bundle.facts_json import parse_facts
from amd_ctk.doctor.bundle.members import FACTS, BundleError
from amd_ctk.doctor.bundle.read import read_members
from amd_ctk.doctor.run import Result, run_checks


def replay_bundle(path: str, *, only: Iterable[str] = (), skip: Iterable[str] = (), engine: str = "") -> list[Result]:
    """Return what the checks say of the host of a bundle; BundleError."""
    document = _load(read_members(path), FACTS)
    try:
        return run_checks(parse_facts(document), only=only, skip=skip, engine=engine)
    except (LookupError, TypeError, ValueError, ArithmeticError, RecursionError) as error:
        raise BundleError(f"{path} cannot be understood: {error}") from error


def _load(members: dict[str, bytes], name: str) -> dict[str, Any]:
    if name not in members:
        raise BundleError(f"the bundle has no {name}", hint="read its doctor.json, or ask for a new bundle")
    try:
        document = json.loads(members[name])
    except (ValueError, RecursionError) as error:
        raise BundleError(f"the bundle's {name} is not JSON: {error}") from error
    if not isinstance(document, dict):
        raise BundleError(f"the bundle's {name} is not a JSON object")
    return document
