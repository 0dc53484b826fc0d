"""TAB in a real terminal: bash, zsh and fish complete commands and values, zsh at the first TAB too."""

from __future__ import annotations

import os
import pty
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from amdgpu_discovery.simulate import build_host
from support.installed import our_program

CHECKOUT = Path(__file__).resolve().parents[2]
# Other tests may keep the machine busy; a shell that has what it needs answers at once.
PATIENCE = 120
SHELLS = {
    "bash": (["bash", "--noprofile", "--norc", "-i"], "PS1='ready> '; source {scripts}/bash/amd-ctk"),
    "zsh": (
        ["zsh", "-f", "-i"],
        "fpath=({scripts}/zsh $fpath); autoload -Uz compinit; compinit -u -d {scripts}/dump; PS1='ready> '",
    ),
    "fish": (
        ["fish", "--no-config", "-i"],
        "function fish_prompt; echo -n 'ready> '; end; source {scripts}/fish/amd-ctk.fish",
    ),
}


@pytest.fixture(scope="module")
def scripts(tmp_path_factory):
    """Return a directory with the completions that packages carry."""
    directory = tmp_path_factory.mktemp("completions")
    words = [sys.executable, CHECKOUT / "packaging/man.py", directory, directory, "2026-01-01", "2.0"]
    subprocess.run(words, check=True, capture_output=True)
    return directory


class Terminal:
    """A shell in a terminal of its own."""

    def __init__(self, words, environment):
        self._pid, self._terminal = pty.fork()
        if self._pid == 0:
            os.execvpe(words[0], words, environment)

    def type(self, text):
        os.write(self._terminal, text.encode())

    def wait_for(self, text):
        """Return what is shown until `text` is."""
        shown, deadline = "", time.monotonic() + PATIENCE
        while text not in shown:
            left = deadline - time.monotonic()
            assert left > 0, f"{text!r} is not shown, but: {shown!r}"
            if select.select([self._terminal], [], [], left)[0]:
                shown += os.read(self._terminal, 4096).decode(errors="replace")
                if "\x1b[c" in shown:
                    # fish asks the terminal what it is.
                    os.write(self._terminal, b"\x1b[?62c")
                    shown = shown.replace("\x1b[c", "")
        return shown

    def close(self):
        os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        os.close(self._terminal)


@pytest.fixture(params=SHELLS)
def terminal(request, scripts, tmp_path):
    words, setup = SHELLS[request.param]
    if shutil.which(words[0]) is None:
        pytest.skip(f"{words[0]} is not installed")
    host = build_host(tmp_path / "host", "mi210-4")
    path = f"{Path(our_program('amd-ctk')).parent}:/usr/bin:/bin"
    environment = {"PATH": path, "HOME": f"{tmp_path}", "TERM": "xterm", "LANG": "C.UTF-8", "COLUMNS": "200"}
    opened = Terminal(words, {**environment, "AMD_CTK_HOST_ROOT": host.root})
    opened.type(f"{setup.format(scripts=scripts)}\n")
    # The first time it is the command that is shown.
    opened.type("echo set''up\n")
    opened.wait_for("setup")
    yield opened
    opened.close()


@pytest.mark.parametrize(
    ("typed", "completed"),
    [("amd-ctk doc\t", "doctor"), ("amd-ctk runtime configure --runtime pod\t", "podman"),
     ("amd-ctk config set unknown-gpus ign\t", "ignore"), ("amd-ctk gpu-tracker 0 excl\t", "exclusive")],
)  # fmt: skip
def test_the_first_tab_completes(terminal, typed, completed):
    terminal.type(typed)

    terminal.wait_for(completed)
