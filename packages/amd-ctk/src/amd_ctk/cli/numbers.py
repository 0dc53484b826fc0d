"""Numbers on the command line, whose limits help and messages tell in words instead of as [x>=1]."""

from __future__ import annotations

from collections.abc import Callable

import typer


def whole_number(least: int, most: int | None = None) -> Callable[[object], int]:
    """Return what reads a whole number between two limits; typer.BadParameter if it is not one."""
    wanted = f"a whole number of at least {least}" if most is None else f"a whole number from {least} to {most}"

    def read(text: object) -> int:
        try:
            number = int(str(text))
        except ValueError:
            raise typer.BadParameter(f"{str(text)[:40]!r} is not {wanted}") from None
        if number < least or (most is not None and number > most):
            raise typer.BadParameter(f"{str(text)[:40]} is not {wanted}")
        return number

    return read


def seconds(text: object) -> float:
    """Read a time of at least a tenth of a second; typer.BadParameter if it is not one."""
    try:
        number = float(str(text))
    except ValueError:
        number = 0.0
    if not 0.1 <= number < float("inf"):
        raise typer.BadParameter(f"{str(text)[:40]!r} is not a number of seconds, at least 0.1")
    return number
