from __future__ import annotations

import pytest

from support.not_run import read_not_run


def test_every_command_has_the_reason_of_its_block() -> None:
    text = "# needs a registry\ndocker pull a\ndocker pull b\n\n# restarts the host\nreboot\n"

    assert read_not_run(text) == {
        "docker pull a": "needs a registry",
        "docker pull b": "needs a registry",
        "reboot": "restarts the host",
    }


@pytest.mark.parametrize("text", ["docker pull a\n", "# only a reason\n"])
def test_commands_and_reasons_come_together(text: str) -> None:
    with pytest.raises(ValueError, match="not a reason"):
        read_not_run(text)
