"""Completion of values with the TAB key. Prints nothing, and offers nothing that it cannot find out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

# Time limit for each engine, because the shell waits for the answer.
COMPLETION_SECONDS = 2


def engines(incomplete: str) -> list[str]:
    """Complete the name of an engine that `runtime configure` knows."""
    from amd_ctk.engines.known import ENGINES

    return _beginning(ENGINES, incomplete)


def settings(incomplete: str) -> list[str]:
    """Complete the name of a setting."""
    from amd_device_spec.settings import SETTINGS
    from amd_gpu_tracker.cli import DEFAULTS

    return _beginning([*SETTINGS, *DEFAULTS], incomplete)


def setting_values(ctx: Any, incomplete: str) -> list[str]:
    """Complete the value of the setting before it, if its values are fixed words."""
    from amd_device_spec.settings import SETTINGS
    from amd_gpu_tracker.cli import HOLDER, HOLDERS

    key = ctx.params.get("key") or ""
    if key == HOLDER:
        return _beginning(HOLDERS, incomplete)
    setting = SETTINGS.get(key)
    return _beginning(setting.choices if setting else (), incomplete)


def checks(incomplete: str) -> list[str]:
    """Complete the last of a comma-separated list of doctor's checks."""
    from amd_ctk.doctor.run import check_names

    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in _beginning(check_names(), last)]


def containers(incomplete: str) -> list[str]:
    """Complete the name of a running container of Docker or Podman."""
    from amd_ctk.engines.engine_words import ENGINES
    from amd_ctk.explain.running import ask_engine

    answers = [ask_engine(engine, "ps", "--format", "{{.Names}}", seconds=COMPLETION_SECONDS) for engine in ENGINES]
    names = {name for answer in answers if answer.succeeded for name in answer.output.split() if name.isprintable()}
    return _beginning(sorted(names), incomplete)


def _beginning(candidates: Iterable[str], incomplete: str) -> list[str]:
    return [word for word in candidates if word.startswith(incomplete)]
