"""What a screen waits for: the time of the next look, keys, a terminal of another size, and Ctrl-Z."""

from __future__ import annotations

import os
import select
import signal
import termios
import tty

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from typing_extensions import Self

# As the keys that ask for the same: Ctrl-Z, and Ctrl-L.
STOPPED = "\x1a"
RESIZED = "\x0c"
# Longer than what a key sends; more than one may have been typed.
MOST_TYPED = 64
STANDARD_INPUT = 0
EVENT_BY_SIGNAL = {int(signal.SIGTSTP): STOPPED, int(signal.SIGWINCH): RESIZED}


class Events:
    """Waits for what happens to a screen; within `with` keys come one by one and are not shown."""

    def __init__(self, *, takes_keys: bool) -> None:
        self._takes_keys = takes_keys and os.isatty(STANDARD_INPUT)

    def __enter__(self) -> Self:
        self._reader, self._writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._handlers = {number: signal.signal(number, _do_nothing) for number in EVENT_BY_SIGNAL}
        # A signal between the last look at the handlers and the wait below would go unseen until the next look.
        signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        if self._takes_keys:
            self._settings = termios.tcgetattr(STANDARD_INPUT)
            tty.setcbreak(STANDARD_INPUT)
        return self

    def __exit__(self, *_: object) -> None:
        if self._takes_keys:
            termios.tcsetattr(STANDARD_INPUT, termios.TCSADRAIN, self._settings)
        signal.set_wakeup_fd(-1)
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        os.close(self._reader)
        os.close(self._writer)

    def wait(self, seconds: float) -> str:
        """Return STOPPED, RESIZED, the keys that were typed, or "" when so many seconds are over."""
        inputs = [self._reader, *([STANDARD_INPUT] if self._takes_keys else [])]
        ready = select.select(inputs, [], [], seconds)[0]
        if self._reader in ready:
            events = {EVENT_BY_SIGNAL.get(number, "") for number in os.read(self._reader, MOST_TYPED)}
            return STOPPED if STOPPED in events else RESIZED if RESIZED in events else ""
        if not ready:
            return ""
        typed = os.read(STANDARD_INPUT, MOST_TYPED)
        # A terminal that is gone can be read for ever.
        self._takes_keys = self._takes_keys and bool(typed)
        return typed.decode("utf-8", "replace")


def _do_nothing(_number: int, _frame: Any) -> None:
    """Handle a signal, because one without a handler stops the program or is not seen."""
