"""A pack stands for the modules it was made of, exactly as long as these are the ones that are there."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import amdgpu_discovery
from amdgpu_discovery.pack import pack_path, write_pack

# A program like those that have packs, in a package with a module that is needed at once and one that is not.
PROGRAM = """
import marshal, posix, sys
from _frozen_importlib_external import MAGIC_NUMBER
root = __file__.removesuffix("/shop/program.py")
sys.path.insert(0, root)
try:
    pack = posix.open(f"{root}/shop/__pycache__/program.pack-{MAGIC_NUMBER.hex()}", 0)
    code, packed = marshal.loads(posix.read(pack, 1 << 22))
    exec(code, {"root": root, "packed": packed})
except (OSError, ValueError, EOFError, TypeError):
    pass
from amd_shop.counter import serve
serve(*sys.argv[1:])
"""
COUNTER = '''"""Serves."""
from __future__ import annotations
from amd_shop.prices import PRICE
TYPE_CHECKING = False
if TYPE_CHECKING:
    from nowhere import Nothing
def serve(*words: Nothing) -> None:
    place = __file__.rpartition("/")[2]
    print(PRICE, __name__, __package__, place, type(__spec__ if "__spec__" in globals() else None).__name__)
    if "attic" in words:
        from amd_shop.attic import DUST
        print(DUST)
    if "bottle" in words:
        from amd_shop.cellar import BOTTLE
        from amd_shop import cellar
        print(BOTTLE, type(cellar.__spec__).__name__, "amd_shop.attic" in sys.modules)
    print("_json" in sys.modules)
import sys
try:
    import _json
except ImportError:
    pass
'''


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """Return a program with its modules, and with what reads its pack."""
    root = tmp_path / "lib"
    shutil.copytree(Path(amdgpu_discovery.__file__).parent, root / "amdgpu_discovery")
    (root / "shop").mkdir()
    (root / "shop/program.py").write_text(PROGRAM)
    (root / "amd_shop").mkdir()
    (root / "amd_shop/__init__.py").write_text("")
    (root / "amd_shop/counter.py").write_text(COUNTER)
    (root / "amd_shop/prices.py").write_text("PRICE = 7\n")
    (root / "amd_shop/years.py").write_text("YEARS = 'old'\n")
    (root / "amd_shop/cellar.py").write_text(
        "from amd_shop.prices import PRICE\nfrom amd_shop.years import YEARS\nBOTTLE = f'{PRICE} {YEARS}'\n"
    )
    (root / "amd_shop/attic.py").write_text("from amd_shop.cellar import BOTTLE\nDUST = f'{BOTTLE} and dusty'\n")
    return root / "shop/program.py"


def pack(program: Path) -> list[str]:
    return write_pack(str(program), first=["amd_shop.counter"], later=[["amd_shop.cellar"], ["amd_shop.attic"]])


def run(program: Path, *words: str) -> str:
    answer = subprocess.run(
        [sys.executable, "-I", "-S", "-B", str(program), *words], capture_output=True, text=True, check=True
    )
    return answer.stdout


def change_in_place(file: Path, text: str) -> None:
    """Change a file behind the back of its directory, which shows whether a pack or the file was used."""
    times = os.stat(file.parent)
    file.write_text(text)
    os.utime(file.parent, ns=(times.st_atime_ns, times.st_mtime_ns))


def test_a_packed_program_does_what_it_does_without_its_pack(shop: Path) -> None:
    without = run(shop, "bottle")

    files = pack(shop)

    cache = f"{shop.parent}/__pycache__/program.pack-{importlib.util.MAGIC_NUMBER.hex()}"
    assert files == [cache, f"{cache}-1", f"{cache}-2"]
    assert without == "7 amd_shop.counter amd_shop counter.py ModuleSpec\n7 old ModuleSpec False\nTrue\n"
    assert run(shop, "bottle") == "7 amd_shop.counter amd_shop counter.py NoneType\n7 old ModuleSpec False\nTrue\n"


@pytest.mark.parametrize("lost", ["", "pack-1", "pack-2"])
def test_a_group_may_need_another(shop: Path, lost: str) -> None:
    for file in pack(shop):
        if lost and file.endswith(lost):
            os.unlink(file)

    assert run(shop, "attic") == "7 amd_shop.counter amd_shop counter.py NoneType\n7 old and dusty\nTrue\n"


def test_the_modules_come_from_the_pack_and_not_from_their_files(shop: Path) -> None:
    pack(shop)
    change_in_place(shop.parent.parent / "amd_shop/prices.py", "PRICE = 8\n")
    change_in_place(shop.parent.parent / "amd_shop/cellar.py", "BOTTLE = 'new'\n")
    change_in_place(shop.parent.parent / "amd_shop/years.py", "YEARS = 'new'\n")

    assert run(shop, "bottle") == "7 amd_shop.counter amd_shop counter.py NoneType\n7 old ModuleSpec False\nTrue\n"


def test_a_module_that_was_replaced_is_not_overlooked(shop: Path) -> None:
    pack(shop)
    new = shop.parent.parent / "amd_shop/prices.py.new"
    new.write_text("PRICE = 9\n")
    new.rename(new.with_suffix(""))
    os.utime(new.parent, (2_000_000_000, 2_000_000_000))

    assert run(shop) == "9 amd_shop.counter amd_shop counter.py ModuleSpec\nTrue\n"


def test_where_images_are_deployed_whole_the_pack_counts_although_no_time_is_kept(shop: Path) -> None:
    pack(shop)
    change_in_place(shop.parent.parent / "amd_shop/prices.py", "PRICE = 8\n")
    for package in ("amd_shop", "amdgpu_discovery"):
        os.utime(shop.parent.parent / package, (0, 0))

    assert run(shop) == "7 amd_shop.counter amd_shop counter.py NoneType\nTrue\n"


@pytest.mark.parametrize("kept", [0, 1, 3, 4, 5, 9, 100, 3000, -1])
def test_a_pack_that_was_cut_off_is_passed_over(shop: Path, kept: int) -> None:
    path = Path(pack(shop)[0])
    path.write_bytes(path.read_bytes()[:kept])

    assert run(shop) == "7 amd_shop.counter amd_shop counter.py ModuleSpec\nTrue\n"


def test_a_pack_for_another_python_is_passed_over(shop: Path) -> None:
    path = Path(pack(shop)[0])
    path.rename(path.with_name("program.pack-01020d0a"))

    assert run(shop) == "7 amd_shop.counter amd_shop counter.py ModuleSpec\nTrue\n"


def test_without_a_group_its_modules_are_read_from_their_files(shop: Path) -> None:
    os.unlink(pack(shop)[1])

    assert run(shop, "bottle") == "7 amd_shop.counter amd_shop counter.py NoneType\n7 old ModuleSpec False\nTrue\n"


def test_a_library_of_python_that_went_away_is_looked_for_again(shop: Path) -> None:
    pack(shop)
    path = Path(pack_path(str(shop)))
    import _json

    if not getattr(_json, "__file__", None):
        pytest.skip("this python has _json built in")
    place = _json.__file__.encode()
    path.write_bytes(path.read_bytes().replace(place, place.replace(b"_json", b"_jsoM")))

    assert run(shop) == "7 amd_shop.counter amd_shop counter.py NoneType\nTrue\n"


def test_a_pack_that_is_as_it_should_be_is_left_alone(shop: Path) -> None:
    first = [os.stat(file).st_ino for file in pack(shop)]

    assert [os.stat(file).st_ino for file in pack(shop)] == first
