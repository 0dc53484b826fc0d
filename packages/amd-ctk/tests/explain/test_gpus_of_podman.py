"""What explain says of `podman run --gpus`, beside the answers of Podman 6.

tests-integration/cdi/test_gpus_option.py asked Podman of Debian experimental; it writes words/gpus-podman-6.json again.
"""

from __future__ import annotations

import json
from pathlib import Path

from amd_ctk.explain import engine_spec, engine_view
from amd_ctk.explain.explanation import explain_container
from amd_ctk.explain.run_words import parse_run
from amdgpu_discovery.command_line.programs import parse_version
from amdgpu_discovery.errors import ToolkitError
from support.about_gpus import differences
from support.gpus_option import AMD, DIRECTORY, SPECS, GpusLine
from support.kept_answers import read_answers, read_versions
from support.recorder import AMD_RUNTIME, KFD
from support.run_lines import IMAGE, IMAGE_VARIABLES


def explain(line, host, spec, version):
    """Return the spec that explain expects of Podman, None if the container does not start."""
    has_amd, others = SPECS[line.specs]
    directory = Path(host.path(DIRECTORY))
    for file in directory.iterdir():
        file.unlink()
    if has_amd:
        Path(host.path(AMD)).write_bytes(spec)
    for name, text in others.items():
        (directory / name).write_text(text, encoding="utf-8")
    runtime = AMD_RUNTIME if line.with_runtime else "/box/recorder"
    words = ["podman", f"--runtime={runtime}", "run", "--rm", "--network=none", *line.words, line.image, "true"]
    try:
        container = parse_run(words, {}, version=version)
        explanation = explain_container(
            container.replace(image_environment=IMAGE_VARIABLES if line.image == IMAGE else ()), host
        )
    except ToolkitError:
        return None
    return json.loads(json.dumps(explanation.plan.spec).replace(host.root, "")) if explanation.starts else None


def test_explain_gives_the_devices_that_podman_gives(sleeping_host, amd_ctk, monkeypatch):
    amd_ctk("cdi", "generate")
    spec = Path(sleeping_host.path(AMD)).read_bytes()
    recorder = Path(sleeping_host.path("/box/recorder"))
    recorder.parent.mkdir()
    recorder.touch()
    version = parse_version(read_versions()["gpus-podman-6"])
    for module in (engine_view, engine_spec):
        monkeypatch.setattr(module, "find_version", lambda *_: version)
    wrong = []

    for answer in read_answers("gpus-podman-6"):
        line = GpusLine(*answer.asked)
        if found := differences(answer.spec, explain(line, sleeping_host, spec, version), kfd=KFD):
            wrong.append((line, answer.reason, found))

    assert wrong == []
