"""What `amd-ctk explain` says of a command line is what the engine and the runtime make of it.

The runtime behind the engine, or behind amd-container-runtime, keeps config.json and makes no container. The answers of
engines are kept in packages/amd-ctk/tests/explain/engines, which AMD_EXPLAINED_DATA=1 writes again.
"""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path

import pytest

from support.about_gpus import about_gpus, differences
from support.recorded import ENGINES
from support.recorder import KFD
from support.run_lines import make_lines

# A busy machine takes its time for a hundred containers.
pytestmark = [pytest.mark.e2e, pytest.mark.engines, pytest.mark.timeout(3600)]

CASES = int(os.environ.get("AMD_EXPLAINED_CASES", "120"))
DATA = Path(__file__).parents[2] / "packages/amd-ctk/tests/explain/engines"


@pytest.mark.parametrize("name", ENGINES)
def test_explain_says_what_the_engine_does(recorded, name):
    here = recorded(name)
    lines = make_lines(29, CASES, is_podman=here.engine == "podman")
    kept, wrong = [], []

    for line in lines:
        command = here.command(line.words, with_runtime=line.with_runtime)
        spec, said = here.ask_engine(command, with_caller=line.with_caller)
        explained = here.ask_explain(command, with_caller=line.with_caller)
        made = None if spec is None else about_gpus(spec, kfd=KFD)
        kept.append({"line": line, "spec": made})
        if difference := differences(made, explained["spec"] if explained["starts"] else None, kfd=KFD):
            wrong.append((shlex.join(command), line.with_caller, difference, said[-300:] if spec is None else ""))

    if os.environ.get("AMD_EXPLAINED_DATA"):
        DATA.mkdir(exist_ok=True)
        (DATA / f"{name}.json").write_text("[\n" + ",\n".join(map(json.dumps, kept)) + "\n]\n", encoding="utf-8")
    assert not wrong, f"{len(wrong)} of {len(lines)}:\n" + "\n".join(map(str, wrong))
