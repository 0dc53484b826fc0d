"""What a process says of itself is read as far as the kernel can have passed it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from amd_gpu_tracker.leases.processes import Processes

# Words and variables of 64 GiB, which cost no memory. The fields of /proc/self/stat are those of proc(5).
ENDLESS = """
import ctypes, sys
libc = ctypes.CDLL(None)
libc.mmap.restype = libc.sbrk.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
PROT_READ, MAP_PRIVATE_ANONYMOUS_NORESERVE, SIZE = 1, 0x4022, 64 << 30
start = libc.mmap(None, SIZE, PROT_READ, MAP_PRIVATE_ANONYMOUS_NORESERVE, -1, 0)
stat = open("/proc/self/stat").read().rpartition(")")[2].split()
code, stack, data = (int(stat[field - 3]) for field in (26, 28, 45))
code_end, data_end, brk_start = (int(stat[field - 3]) for field in (27, 46, 47))
area = (start, start + SIZE)
addresses = (code, code_end, data, data_end, brk_start, libc.sbrk(0), stack, *area, *area, 0, 0xFFFFFFFF << 32)
PR_SET_MM, PR_SET_MM_MAP = 35, 14
prctl_mm_map = (ctypes.c_uint64 * 13)(*addresses)
print(libc.prctl(PR_SET_MM, PR_SET_MM_MAP, prctl_mm_map, ctypes.sizeof(prctl_mm_map), 0), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def start():
    """Return a function that starts a Python with this code and these variables, and returns its id and first line."""
    running = []

    def start(code, **variables):
        command = [sys.executable, "-c", code]
        running.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=variables))
        return running[-1].pid, running[-1].stdout.readline()

    yield start
    for process in running:
        process.communicate()


@pytest.mark.timeout(20)
def test_an_endless_command_line_of_a_process_is_not_read(start):
    pid, answer = start(ENDLESS)
    if answer != b"0\n":
        pytest.skip("this kernel has no PR_SET_MM_MAP")

    assert Processes().words(pid) == []
    assert Processes().variables(pid, ("HOME", "PATH")) == {"HOME": "", "PATH": ""}


@pytest.mark.parametrize("name", ["x\\rUid:\\t0\\t0", "\\rGroups:\\t27", "\\rNSpid:\\t1"])
def test_a_process_whose_name_looks_like_a_line_of_its_status_has_its_own_ids(start, name):
    pr_set_name = 15
    pid, _ = start(f"import ctypes; ctypes.CDLL(None).prctl({pr_set_name}, b'{name}'); print(flush=True); input()")

    processes = Processes()
    assert processes.uids(pid) == [os.getuid(), os.geteuid(), os.geteuid(), os.geteuid()]
    assert processes.gids(pid) == os.getgroups()
    assert processes.ids_inside(pid)[0] == pid


def test_variables_are_found_by_their_whole_name(start):
    pid, _ = start("print(flush=True); input()", HOMES="no", HOME="/root", EMPTY="", OTHER="HOME=no")

    found = Processes().variables(pid, ("HOME", "EMPTY", "OTHER", "HOM", "NONE"))

    assert found == {"HOME": "/root", "EMPTY": "", "OTHER": "HOME=no", "HOM": "", "NONE": ""}
    assert Processes().variable(pid, "HOME") == "/root"
    assert Processes().words(pid) == [sys.executable, "-c", "print(flush=True); input()"]


def test_a_process_whose_memory_never_answers_is_passed_over(tmp_path):
    for pid in (10, 11, 12):
        (tmp_path / str(pid)).mkdir()
    os.mkfifo(tmp_path / "10" / "environ")
    (tmp_path / "11" / "environ").write_bytes(b"A=1\0TOKEN=abc\0B=\0")
    os.mkfifo(tmp_path / "10" / "cmdline")
    (tmp_path / "11" / "cmdline").write_bytes(b"sleep\x00600\x00")
    processes = Processes(str(tmp_path))

    assert processes.variable_of([10, 11, 12], "TOKEN") == {10: "", 11: "abc", 12: ""}
    assert processes.variables(10, ["TOKEN"]) == {"TOKEN": ""}
    assert processes.first_words([10, 11, 12]) == {10: "", 11: "sleep", 12: ""}


def test_a_process_in_the_middle_of_exec_is_read_once_more(tmp_path):
    class InExec(Processes):
        def link(self, pid, name):
            (tmp_path / str(pid) / "environ").write_bytes(b"TOKEN=abc\0")
            return "/usr/bin/sleep" if (pid, name) == (10, "exe") else ""

    for pid in (10, 11):
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "environ").touch()

    # 11 has no program, as a thread of the kernel.
    assert InExec(str(tmp_path)).variable_of([10, 11], "TOKEN") == {10: "abc", 11: ""}


def test_variables_are_found_in_a_large_environment(start):
    large = {f"V{number}": "x" * 100_000 for number in range(4)}
    pid, _ = start("print(flush=True); input()", **large, TOKEN="caf\udce9 ")

    assert Processes().variable_of([pid], "TOKEN") == {pid: "caf\udce9 "}
    assert Processes().variables(pid, ("TOKEN", "NONE")) == {"TOKEN": "caf\udce9 ", "NONE": ""}
