"""The GPU Tracker guide, replayed from its first command to its last."""

from __future__ import annotations

from pathlib import Path

import pytest

RULE = "-" * 120
HEAD = f"{RULE}\nGPU Id    UUID                     Accessibility       Container Ids\n{RULE}\n"
UUIDS = ("0xEA35F57CC80DEB35", "0x89CAA15875FF5A43", "0x6E32F10EFC982B4C", "0x12FE4F7FDAF06B9")
C36B = "36b012bb34c96149a6ef5b28623e6e75cf9f71eb2b824b2c8f44e0449c7a1aa8"
C90C = "90cb29e11e83aa3ae497c68c90e1f0894b85262188c1ef9c7284457a9bc35ffd"
CD23 = "d23ff3dce1839cbf8ce7ad362641ab85e80b315c319edf73b269c460e348053a"
C846 = "8463b475b55b104b30edec8ddf6249b6214b27127106aa0ff4a8a514b856810e"
CA8C = "a8ce87c99727107ab467508bd431a170b148001fe8a866fcf96d5cc6af9a7f5e"
C988 = "988135dafcd94bf98fbd92ca97f4a07c9bcfff0521359ee9bc8a6973cc3e25ce"


def table(*rows):
    """Return the guide's table; a row is an accessibility and the containers of a GPU."""
    text = HEAD
    for number, (accessibility, *containers) in enumerate(rows):
        first, *others = containers or ["-"]
        text += f"{number:<10}{UUIDS[number]:<25}{accessibility:<20}{first}\n"
        text += "".join(f"{'':<55}{other}\n" for other in others)
    return text


S, X = "Shared", "Exclusive"


@pytest.fixture
def tracker(engine):
    return lambda *words: engine.ctk("gpu-tracker", *words)


def test_the_commands_of_the_guide_answer_as_it_shows(engine, tracker):
    # Show GPU Tracker status; enabling; disabling.
    assert tracker("status") == "GPU Tracker is disabled\n"
    assert tracker("enable") == "GPU Tracker has been enabled\n"
    assert tracker("enable") == "GPU Tracker is already enabled\n"
    assert tracker("status") == table((S,), (S,), (S,), (S,))
    assert tracker("disable") == "GPU Tracker has been disabled\n"
    assert tracker("status") == "GPU Tracker is disabled\n"
    tracker("enable")

    # Granting access to GPUs in containers.
    assert engine.run(C36B, "0-2") == ""
    assert engine.run(C90C, "1,3") == ""
    assert tracker("status") == table((S, C36B), (S, C36B, C90C), (S, C36B), (S, C90C))
    engine.remove(C36B)
    assert engine.leases() == [C90C]
    assert tracker("status") == table((S,), (S, C90C), (S,), (S, C90C))

    # Exclusive accessibility.
    assert tracker("1-3", "exclusive") == "GPUs [1 2 3] have been made exclusive\n"
    assert tracker("status") == table((S,), (X, C90C), (X,), (X, C90C))
    assert engine.run(CD23, "0-2") == (
        "amd-container-runtime: GPUs [0 2] allocated\n"
        "GPUs [1] are exclusive and already in use\n"
        f"Released GPUs [0 2] used by container {CD23}\n"
        f"GPU 1 is in use by container {C90C}"
    )
    assert tracker("status") == table((S,), (X, C90C), (X,), (X, C90C))

    # More than one container.
    tracker("1", "shared")
    assert engine.run(C846, "0-2") == ""
    assert tracker("status") == table((S, C846), (S, C90C, C846), (X, C846), (X, C90C))
    assert tracker("1", "exclusive") == (
        "GPUs [1] have not been made exclusive because more than one container is currently using it\n"
    )
    engine.remove(C846)
    tracker("1", "exclusive")

    # Shared accessibility.
    assert tracker("status") == table((S,), (X, C90C), (X,), (X, C90C))
    assert tracker("1", "shared") == "GPUs [1] have been made shared\n"
    assert engine.run(CA8C, "0-2") == ""
    assert tracker("status") == table((S, CA8C), (S, C90C, CA8C), (X, CA8C), (X, C90C))

    # Reset, after the partitioning scheme has been altered.
    engine.remove(CA8C)
    engine.remove(C90C)
    replace_first_gpu(engine)
    assert tracker("status") == "GPUs info is invalid. Please reset GPU Tracker.\n"
    assert engine.run(C988, "0-2") == "amd-container-runtime: GPUs info is invalid. Please reset GPU Tracker."
    assert tracker("reset") == (
        "GPU Tracker has been reset\n"
        "Since GPU Tracker was enabled, it is recommended to stop and restart running containers to get the most"
        " accurate GPU Tracker status\n"
    )
    assert engine.ctk("cdi", "generate") == "Generated CDI spec: /etc/cdi/amd.json\n"
    assert engine.run(C988, "0-2") == ""
    assert tracker("status") == table((S, C988), (S, C988), (S, C988), (S,))


def test_the_guide_while_the_tracker_is_disabled(tracker):
    assert tracker("1-3", "exclusive") == "GPU Tracker is disabled\n"
    assert tracker("all", "shared") == "GPU Tracker is disabled\n"
    assert tracker("reset") == "GPU Tracker has been reset\n"
    assert tracker("status") == "GPU Tracker is disabled\n"


def replace_first_gpu(engine):
    """Change what the driver says of the first GPU; KFD's id, which the guide's table shows, stays.

    KFD counts its generation up for the one that it takes away and for the one that it adds.
    """
    root = engine.environment["AMD_CTK_HOST_ROOT"]
    generation = Path(root, "sys/class/kfd/kfd/topology/generation_id")
    generation.write_text(f"{int(generation.read_text()) + 2}\n")
    with open(f"{root}/sys/module/amdgpu/drivers/pci:amdgpu/0000:03:00.0/unique_id", "w") as attribute:
        attribute.write("0123456789abcdef\n")
