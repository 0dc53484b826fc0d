"""Make a python that starts sooner: the same program, with a place where it finds at once what it starts with.

Before python runs anything it looks for the package `encodings` and two modules in it, through directories of hundreds
of files, and makes a table of all names that encodings have. That is a twentieth of its start. Here a `pyvenv.cfg`
leads it to another library: where a python may have its modules in a zip file there is a directory with copies of the
package and of UTF-8, and behind that a link to the whole library. The copies are enough in the C locale, where python
takes everything for UTF-8; `packaged.complete_encodings` adds the rest. Python 3.10 is not led there. Sources:
Modules/getpath.py, Lib/encodings/__init__.py.
"""

from __future__ import annotations

import os
import py_compile
import shutil  # noqa: TID253  no container start comes here
import subprocess  # noqa: TID253
import sys

from amdgpu_discovery.files import read_file
from amdgpu_discovery.pack import write_unless_same

COPIED = ("__init__", "utf_8")
# What is asked of it before anybody relies on it: to be this version and to start from here, the whole library, modules
# in C, and all encodings. Its arguments are where it starts from and where our modules are.
PROOF = f"""
import encodings, sys
assert encodings.__file__.startswith(sys.argv[1]) and sys.version == {sys.version!r}
sys.path.insert(0, sys.argv[2])
from amd_container_runtime.packaged import complete_encodings
complete_encodings()
import _json, fcntl, json, subprocess
assert "x".encode("windows-1252") == "x".encode("idna") == b"x"
assert len(sys.modules["encodings.aliases"].aliases) > 300
"""


def make_quick_python(directory: str, interpreter: str, modules: str) -> bool:
    """Make `directory`/python3 of the interpreter that runs this; return whether it works, else there is none.

    It may run while containers start: each version of python has its own library here, and the link that they start
    comes last, when everything else is on the disk.
    """
    library = os.path.dirname(os.__file__)
    place = os.path.relpath(library, sys.base_prefix)
    archive = _archive_of(place)
    os.makedirs(f"{directory}/{archive}/encodings", exist_ok=True)
    sources = {name: f"{library}/encodings/{name}.py" for name in COPIED}
    sources["aliases"] = __file__.replace("quick_python.py", "encoding_aliases.py")
    files = {
        f"{directory}/{archive}/encodings/{name}.pyc": _compile(source, f"{directory}/new.pyc")
        for name, source in sources.items()
    }
    files[f"{directory}/pyvenv.cfg"] = f"home = {directory}\n".encode()
    for path, content in files.items():
        # A python with an empty file among these starts nothing.
        write_unless_same(path, content, durable=True)
    _link(library, f"{directory}/{place}")
    works = _put_to_the_proof(directory, os.path.realpath(interpreter), modules)
    if not works and os.path.lexists(f"{directory}/python3"):
        os.unlink(f"{directory}/python3")
    _remove_those_without_python(f"{directory}/{os.path.dirname(place)}")
    return works


def _archive_of(library: str) -> str:
    """Return the zip file that python looks for beside its library: lib/python3.11, lib/python311.zip."""
    directory, name = os.path.split(library)
    return f"{directory}/{name.replace('.', '')}.zip"


def _compile(source: str, temporary: str) -> bytes:
    unchecked = py_compile.PycInvalidationMode.UNCHECKED_HASH
    py_compile.compile(source, temporary, doraise=True, invalidation_mode=unchecked)
    content = read_file(temporary)
    os.unlink(temporary)
    return content


def _put_to_the_proof(directory: str, interpreter: str, modules: str) -> bool:
    """Put the link in place if the python behind it does what it must."""
    candidate = f"{directory}/python3.new"
    _link(interpreter, candidate)
    words = [candidate, "-I", "-S", "-B", "-c", PROOF, directory, modules]
    works = subprocess.run(words, env={"LC_ALL": "C"}, stderr=subprocess.DEVNULL, check=False).returncode == 0
    if works:
        os.replace(candidate, f"{directory}/python3")
    else:
        os.unlink(candidate)
    return works


def _link(target: str, path: str) -> None:
    if os.path.islink(path) and os.readlink(path) == target:
        return
    temporary = f"{path}.tmp"
    if os.path.lexists(temporary):
        os.unlink(temporary)
    os.symlink(target, temporary)
    os.replace(temporary, path)


def _remove_those_without_python(directory: str) -> None:
    """Remove what was made for a version of python that is gone; what is there may be running."""
    for name in os.listdir(directory):
        library = f"{directory}/{name}"
        if os.path.islink(library) and not os.path.exists(library):
            os.unlink(library)
            shutil.rmtree(_archive_of(library), ignore_errors=True)
