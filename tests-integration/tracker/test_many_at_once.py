"""256 containers created at once: no lease is lost, no exclusive GPU is given twice, nothing but refusals fails."""

from __future__ import annotations

import json

MANY = 256


def test_many_containers_at_once(engine_on):
    engine = engine_on("mi300x-8")
    engine.ctk("gpu-tracker", "enable")
    engine.ctk("gpu-tracker", "4-7", "exclusive")
    # Half of them want shared GPUs, half of them two exclusive ones of which others want one.
    wishes = {f"c{n:03}": f"{n // 2 % 4}" if n % 2 else f"{4 + n // 2 % 4},{4 + (n // 2 + 1) % 4}" for n in range(MANY)}
    for name, wish in wishes.items():
        engine.prepare(name, wish)

    exit_codes = {name: process.wait() for name, process in [(name, engine.create(name)) for name in wishes]}

    failed = {name for name, code in exit_codes.items() if code}
    told = {name: (engine.bundles / name / "log.json").read_text() for name in failed}
    assert [text for text in told.values() if "are exclusive and already in use" not in text] == []
    granted = set(wishes) - failed
    assert {name for name in wishes if "," not in wishes[name]} <= granted
    status = json.loads(engine.ctk("gpu-tracker", "status", "--json"))
    shown = {gpu["number"]: {use["container_id"] for use in gpu["containers"]} for gpu in status["gpus"]}
    wanted = {gpu: {name for name in granted if str(gpu) in wishes[name].split(",")} for gpu in range(8)}
    assert shown == wanted
    assert [len(shown[gpu]) for gpu in range(4, 8)] == [1, 1, 1, 1]
    assert status["problems"] == []
