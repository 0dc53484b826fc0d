"""Find exports of a package that their docstrings do not describe.

Functions name their parameters in backticks. Classes describe their fields in a section `Attributes:`, which the site
renders as a table, or each field in a text below it, which the site shows with the field.
"""

from __future__ import annotations

import dis
import inspect
import re
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

from field_texts import about_fields

FIELD = re.compile(r"^ {4,8}(\w+): \S", re.MULTILINE)
# The name of a parameter suffices if its type is one of these described values.
SPEAKING = re.compile(
    r"\b(Host|Gpu|GpuLocation|DeviceNode|PciAddress|Profile|CdiOptions|Edits|GpuRequest|Grant|Settings|StartingContainer)\b"
)
# Paths of the host, which the class explains.
OBVIOUS = {"self", "path"}


def undescribed(package: ModuleType) -> list[str]:
    """Return the exports of a package without a description, as `Class.field` or `function(parameter)`."""
    return [missing for name in package.__all__ for missing in _missing(name, getattr(package, name))]


def _missing(name: str, offered: Any) -> Iterator[str]:
    if not (offered.__doc__ or "").strip():
        yield name
    if inspect.isfunction(offered):
        yield from _missing_parameters(name, offered, offered.__doc__ or "")
    else:
        yield from (f"{name}.{field}" for field in _fields(offered) if field not in _described_fields(offered))
        for method, function in _public_methods(offered):
            # The class docstring may describe the fields instead.
            text = f"{function.__doc__ or ''}{_names_of_fields(offered)}"
            yield from _missing_parameters(f"{name}.{method}", function, text)


def _missing_parameters(name: str, function: Callable[..., Any], text: str) -> Iterator[str]:
    for parameter in inspect.signature(function).parameters.values():
        is_clear = parameter.name in OBVIOUS or SPEAKING.search(str(parameter.annotation))
        if not is_clear and f"`{parameter.name}`" not in text:
            yield f"{name}({parameter.name})"


def _fields(offered: type) -> tuple[str, ...]:
    """Return the fields of a value, or the public attributes that another class sets in __init__."""
    if hasattr(offered, "_fields"):
        return tuple(offered._fields)
    steps = dis.get_instructions(vars(offered)["__init__"]) if "__init__" in vars(offered) else ()
    return tuple(step.argval for step in steps if step.opname == "STORE_ATTR" and not step.argval.startswith("_"))


def _described_fields(offered: type) -> set[str]:
    texts = [inspect.cleandoc(cls.__doc__ or "").partition("Attributes:\n")[2] for cls in offered.__mro__]
    return {field for text in texts for field in FIELD.findall(text)} | about_fields(offered).keys()


def _names_of_fields(offered: type) -> str:
    return "".join(f"`{field}`" for field in _described_fields(offered))


def _public_methods(offered: type) -> Iterator[tuple[str, Callable[..., Any]]]:
    for name, member in vars(offered).items():
        function = member.fget if isinstance(member, property) else member
        if inspect.isfunction(function) and (not name.startswith("_") or name == "__init__"):
            yield name, function
