"""The table of what the service does with each verb."""

from __future__ import annotations

from amd_gpu_sharing.broker.handler import ACTS
from amd_gpu_sharing.broker.requests.protocol import VERBS


def test_each_verb_that_the_service_accepts_has_an_answer():
    assert sorted(ACTS) == sorted(VERBS)
