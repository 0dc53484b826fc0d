"""A program that finds Typer loaded does what one does that was started as usual."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from support.ready_interpreter import ReadyInterpreter

SAYS_ALL = f"""#!{sys.executable}
import os, sys
for stream in (sys.stdin, sys.stdout, sys.stderr):
    print(stream.fileno(), stream.encoding, stream.errors, getattr(stream, "line_buffering", None), stream.isatty())
print(__name__, sys.argv, sys.path, sys.executable, sys.flags, sys.stdin.read())
print(sorted(os.environ.items()), os.getcwd(), os.umask(0), sorted(os.listdir("/proc/self/fd")))
print("amd_ctk" in sys.modules, "amdgpu_discovery" in sys.modules)
sys.exit(7)
"""


@pytest.fixture
def both(tmp_path):
    """Return a function that runs a script in both ways."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}

    def run(text, *words, **variables):
        program = tmp_path / "program"
        program.write_text(text)
        program.chmod(0o755)
        known = {**environment, **variables}
        started = subprocess.run([program, *words], env=known, capture_output=True, text=True, check=False)
        with ReadyInterpreter(str(program), environment) as interpreter:
            # It is not the first that counts.
            interpreter.run(words, known)
            return answer_of(started), answer_of(interpreter.run(words, known))

    return run


def answer_of(ended):
    return ended.returncode, ended.stdout, ended.stderr


@pytest.mark.parametrize("variables", [{}, {"A": "b"}, {"LANG": "en_GB.ISO-8859-1"}, {"PYTHONIOENCODING": "latin-1"}])
def test_a_program_in_a_ready_interpreter_has_the_same_surroundings(both, tmp_path, monkeypatch, variables):
    monkeypatch.chdir(tmp_path)

    started, ready = both(SAYS_ALL, "one", "-", "\udcff", **variables)

    assert ready == started
    assert started[0] == 7


@pytest.mark.parametrize(
    "end", ["os._exit(3)", "sys.exit('a sentence')", "1 / 0", "os.abort()", f"os.kill(os.getpid(), {signal.SIGKILL})"]
)
def test_a_program_in_a_ready_interpreter_ends_in_the_same_way(both, end):
    started, ready = both(f"#!{sys.executable}\nimport os, sys\nprint('begun', flush=True)\n{end}\n")

    assert ready[:2] == started[:2]
    assert ready[2].splitlines()[-1:] == started[2].splitlines()[-1:]


def test_a_program_in_a_ready_interpreter_may_print_more_than_a_pipe_holds(both):
    writing = "for stream in (sys.stderr, sys.stdout): stream.write('x' * 300_000)"
    started, ready = both(f"#!{sys.executable}\nimport sys\n{writing}\n")

    assert ready == started
    assert len(started[1]) == 300_000


COMMANDS = ["gpu list", "--help", "cdi generate --output -", "config set log-level x", "nothing"]


@pytest.mark.parametrize("words", COMMANDS)
def test_amd_ctk_says_the_same(host, program, run_amd_ctk, tmp_path, words):
    known = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "AMD_CTK_HOST_ROOT": host().root, "COLUMNS": "100"}

    started = subprocess.run([program, *words.split()], env=known, capture_output=True, text=True, check=False)

    assert answer_of(run_amd_ctk(*words.split())) == answer_of(started)
