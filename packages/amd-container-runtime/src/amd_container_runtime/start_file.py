"""One file with the compiled modules of a container start, which opens it instead of forty others.

The packages' `assemble` writes it beside the modules that it compiles. If it is missing or partly unreadable, a start
imports the modules themselves. Paths and line numbers are the same either way.
"""

from __future__ import annotations

import marshal
import sys
from _frozen_importlib import ModuleSpec
from _frozen_importlib_external import MAGIC_NUMBER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

NAME = "start.modules"
# What a tracked start with GPUs loads, including the packages around each. tests/test_import_budget.py holds the list.
MODULES = {
    "amd_container_runtime": "create report runc shim",
    "amd_device_spec": "oci request settings start start.plan",
    "amd_gpu_tracker": "book book.history book.identity book.lease book.lock book.policy book.rootless book.state"
    " claims claims.claim claims.container claims.hook_entries claims.reservation enabled leases leases.processes",
    "amdgpu_discovery": "choices choices.oci_spec choices.selection driver driver.device_nodes driver.drm"
    " driver.kfd_topology errors files gpu host numbering untrusted untrusted.plain_files untrusted.plain_json value",
}
# Size of the header of a compiled file, before the code.
HEADER_BYTES = 16
ENDS_OF_A_PACKAGE = "/__init__.py"


def write_start_file(directory: str) -> None:
    """Join the compiled modules of a start below a directory that is on Python's module path."""
    from importlib.util import cache_from_source
    from pathlib import Path

    top = Path(directory)
    codes = {}
    for package, modules in MODULES.items():
        for name in (package, *(f"{package}.{module}" for module in modules.split())):
            path = top / name.replace(".", "/")
            source = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
            if source.exists():
                codes[name] = Path(cache_from_source(str(source))).read_bytes()[HEADER_BYTES:]
    # A start at the same time, as during a repair, reads the whole former file.
    new = top / f"{NAME}.new"
    new.write_bytes(MAGIC_NUMBER + marshal.dumps(codes))
    new.replace(top / NAME)


def use_start_file(directory: str) -> None:
    """Import from the start file of a directory first, if there is one for this version of Python."""
    try:
        with open(f"{directory}/{NAME}", "rb") as file:
            content = file.read()
        if content.startswith(MAGIC_NUMBER):
            codes = marshal.loads(memoryview(content)[len(MAGIC_NUMBER) :])  # noqa: S302 - as below
            sys.meta_path.insert(0, StartFile(codes))
    except (OSError, EOFError, TypeError, ValueError):
        return


class StartFile:
    """Finds and loads the modules of a start; each is read when it is imported."""

    def __init__(self, codes: dict[str, bytes]) -> None:
        self._codes = codes

    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
        """Return how a module is loaded, None to leave it to Python's next finder."""
        try:
            code = marshal.loads(self._codes[name])  # noqa: S302 - a file of root, like the compiled modules beside it
        except (KeyError, EOFError, TypeError, ValueError):
            return None
        source = code.co_filename
        # Not importlib.abc.Loader, although it has its methods: importing that takes as long as all of a start.
        loader: Any = self
        spec = ModuleSpec(name, loader, origin=source, loader_state=code)
        if source.endswith(ENDS_OF_A_PACKAGE):
            spec.submodule_search_locations = [source.removesuffix(ENDS_OF_A_PACKAGE)]
        return spec

    def create_module(self, spec: ModuleSpec) -> None:
        """Let Python create the module, as it does for modules of a file."""

    def exec_module(self, module: ModuleType) -> None:
        """Run the code of a module, and set its path as for modules of a file."""
        spec: Any = module.__spec__
        module.__file__ = spec.origin
        exec(spec.loader_state, module.__dict__)  # noqa: S102 - importlib does the same with the code of a file
