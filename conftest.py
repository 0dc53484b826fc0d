"""Settings of every test run."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# Time is measured in benchmarks and never decides a test: a busy machine is not a bug.
settings.register_profile("any-machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any-machine")
