"""GPUs from CDI have no limit on their memory, so their hook refuses containers where limits are required."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.enabled_tracker import enable

REFUSED = (
    'CDI sets no limit on GPU memory, and vram-limit is "required"'
    " (use the AMD runtime: --runtime=amd -e AMD_VISIBLE_DEVICES=0 -e AMD_VRAM=8GiB)"
)
RUN = ("--", "docker", "run", "--device=amd.com/gpu=0", "rocm")


@pytest.fixture
def generate(amd_ctk):
    """Return a function that sets vram-limit and makes the CDI spec anew."""

    def run(limit):
        amd_ctk("config", "set", "vram-limit", limit)
        assert amd_ctk("cdi", "generate").returncode == 0

    return run


def hooks(built):
    edits = json.loads(Path(built.path("/etc/cdi/amd.json")).read_text())["containerEdits"]
    return [hook["args"] for hook in edits.get("hooks", ()) if hook["hookName"] == "createRuntime"]


@pytest.mark.parametrize("is_tracked", [False, True])
def test_only_where_limits_are_required_the_hook_of_a_spec_refuses_containers(host, generate, is_tracked):
    built = host()
    if is_tracked:
        enable(built)

    generate("asked")
    before = hooks(built)
    generate("required")

    assert not any("--require-limit" in words for words in before)
    assert ["--require-limit" in words for words in hooks(built)] == [True]


def test_explain_says_that_the_hook_refuses_a_container_that_may_share_a_gpu(host, amd_ctk, generate):
    enable(host())
    generate("required")

    answer = amd_ctk("explain", *RUN)

    assert answer.returncode == 4
    assert REFUSED in answer.stdout.replace("\n", " ").replace("   ", " ").replace("  ", " ")


def test_explain_says_that_a_container_with_an_exclusive_gpu_starts(tracked, amd_ctk, generate):
    generate("required")

    answer = amd_ctk("explain", *RUN)

    assert (answer.returncode, "CDI sets no limit" in answer.stdout) == (0, False)
