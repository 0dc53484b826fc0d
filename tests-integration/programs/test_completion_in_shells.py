"""TAB in bash, zsh and fish: in a real terminal, and what is offered for commands and options without any program."""

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
import typer.main
from typer.testing import CliRunner

from amd_ctk.cli.root import app
from amd_gpu_tracker.cli import make_app
from support.installed import our_program

CHECKOUT = Path(__file__).resolve().parents[2]
# Other tests may keep the machine busy; a shell that has what it needs answers at once.
TIMEOUT = 120
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

APPS = {"amd-ctk": app, "amd-gpu-tracker": make_app()}
PROGRAMS = (*APPS, "amd-gpu-images", "amd-gpu-sharing", "amdgpu-simulator")
# Groups in which GPUs may stand in place of a command, so that the program is asked where nothing is typed yet.
TAKE_GPUS = ("amd-ctk gpu-tracker", "amd-gpu-tracker")
# How each shell says what it offers for a line. zsh's own display needs a terminal; what it displays is in `offers`.
OFFERS = {
    "bash": (
        ["bash", "--noprofile", "--norc", "-c"],
        "source {scripts}/bash/{program}",
        'COMP_WORDS=({words}) COMP_CWORD={last}; _{name}_completion {program}; echo . "${{COMPREPLY[@]}}"',
    ),
    "zsh": (
        ["zsh", "-f", "-c"],
        "compdef() {{ : }}; source {scripts}/zsh/_{program}; kind=; typeset -a below flags offers",
        "_{name}_find {words}; print -r . ${{offers%%:*}}",
    ),
    "fish": (
        ["fish", "--no-config", "-c"],
        "source {scripts}/fish/{program}.fish",
        "echo . (complete --do-complete {line} | string replace --regex '\\t.*' '')",
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
        shown, deadline = "", time.monotonic() + TIMEOUT
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
def terminal(request, scripts, tmp_path, amd_host):
    words, setup = SHELLS[request.param]
    if shutil.which(words[0]) is None:
        pytest.skip(f"{words[0]} is not installed")
    path = f"{Path(our_program('amd-ctk')).parent}:/usr/bin:/bin"
    environment = {"PATH": path, "HOME": f"{tmp_path}", "TERM": "xterm", "LANG": "C.UTF-8", "COLUMNS": "200"}
    opened = Terminal(words, {**environment, "AMD_CTK_HOST_ROOT": amd_host.path})
    opened.type(f"{setup.format(scripts=scripts)}\n")
    # The first time it is the command that is shown.
    opened.type("echo set''up\n")
    opened.wait_for("setup")
    yield opened
    opened.close()


@pytest.mark.amd_host("mi210-4")
@pytest.mark.parametrize(
    ("typed", "completed"),
    [("amd-ctk doc\t", "doctor"), ("amd-ctk runtime configure --runtime pod\t", "podman"),
     ("amd-ctk config set unknown-gpus ign\t", "ignore"), ("amd-ctk gpu-tracker 0 excl\t", "exclusive")],
)  # fmt: skip
def test_the_first_tab_completes(terminal, typed, completed):
    terminal.type(typed)

    terminal.wait_for(completed)


def _places(command, words):
    """Yield the words of every command that help shows, and the command."""
    yield words, command
    for name, child in getattr(command, "commands", {}).items():
        if not child.hidden:
            yield from _places(child, f"{words} {name}")


def _lines(words, command):
    """Yield lines in which a command or an option is typed, of which the last word is not complete."""
    children = [name for name, child in getattr(command, "commands", {}).items() if not child.hidden]
    yield from (f"{words} {name[:1]}" for name in children)
    yield from [f"{words} "] if children and words not in TAKE_GPUS else []
    yield from (f"{words} -", f"{words} --")
    for option in command.params:
        if option.param_type_name == "option" and not option.hidden:
            value = "" if option.is_flag or "--wait" in option.opts else " 1"
            yield from (f"{words} {name}{value} -" for name in option.opts)
            yield f"{words} {option.opts[0][:4]}"


def _offered_by_typer(program, line):
    """Return the words that the program itself offers."""
    asked = {f"_{program.replace('-', '_').upper()}_COMPLETE": "complete_bash"}
    environment = {"COMP_WORDS": line, "COMP_CWORD": f"{line.count(' ')}", **asked}
    return sorted(CliRunner().invoke(APPS[program], prog_name=program, env=environment).stdout.split())


COMMANDS = dict(pair for name, one in APPS.items() for pair in _places(typer.main.get_command(one), name))


def _offered_by_shell(shell, lines, scripts, directory):
    """Return the words that a shell offers for each line, where the only programs are those of a directory."""
    start, setup, ask = OFFERS[shell]
    program = lines[0].split()[0]
    facts = {"scripts": scripts, "program": program, "name": program.replace("-", "_")}
    text = [setup.format(**facts)]
    for line in lines:
        typed = line if line[-1] != " " else f"{line}''"
        text.append(ask.format(line=f"'{line}'", words=typed, last=line.count(" "), **facts))
    command = [shutil.which(start[0]), *start[1:], "\n".join(text)]
    directory.joinpath("empty").mkdir()
    answer = subprocess.run(
        command, env={"PATH": f"{directory}"}, cwd=directory / "empty", capture_output=True, text=True, check=False
    )
    assert answer.stderr == ""
    offered = [sorted(found.split()[1:]) for found in answer.stdout.splitlines()]
    return dict(zip(lines, offered, strict=True))


@pytest.mark.parametrize("words", COMMANDS)
@pytest.mark.parametrize("shell", OFFERS)
def test_commands_and_options_are_offered_as_the_program_does_and_none_is_started(shell, words, scripts, tmp_path):
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    program = words.split()[0]
    for name in ("env", program):
        (tmp_path / name).write_text(f"#!/bin/sh\necho {name} >> {tmp_path}/started\n")
        (tmp_path / name).chmod(0o755)
    lines = list(_lines(words, COMMANDS[words]))

    offered = _offered_by_shell(shell, lines, scripts, tmp_path)

    assert offered == {line: _offered_by_typer(program, line) for line in lines}
    assert not (tmp_path / "started").exists()


@pytest.mark.parametrize("shell", SHELLS)
def test_programs_print_the_file_that_packages_carry(shell, scripts):
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")

    # Typer takes the shell that called the program for the one that is meant.
    shown = {
        program: subprocess.run(
            [shell, "-c", f"{our_program(program)} --show-completion; true"], capture_output=True, text=True, check=True
        ).stdout
        for program in PROGRAMS
    }

    files = {path.name.strip("_").removesuffix(".fish"): path.read_text() for path in (scripts / shell).iterdir()}
    assert {program: text.strip() for program, text in shown.items()} == {
        program: text.strip() for program, text in files.items()
    }
