"""Checks of Python code that are counted, and reported as Check reports them. scripts/ is on the
path of who imports this."""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Callable
from pathlib import Path

from output import Failure


class Checks:
    """Counts, and prints what failed."""

    def __init__(self) -> None:
        self.n = self.failed = 0

    def that(self, holds: bool, what: str) -> None:
        self.n += 1
        if not holds:
            self.failed += 1
            print(f"failed: {what}")

    def refused(self, what: str, words: str, action: Callable[[], object], folder: Path) -> None:
        """The action fails in one line that holds `words`, and leaves no file in `folder`."""
        before = sorted(folder.iterdir()) if folder.is_dir() else []
        try:
            with contextlib.redirect_stderr(io.StringIO()):
                action()
            message = "nothing"
        except (Failure, OSError) as failure:
            message = str(failure)
        except Exception as error:  # a traceback for the user
            message = f"{type(error).__name__}: {error}\n"
        self.that(words in message and "\n" not in message, f"{what}: {message!r}")
        after = sorted(folder.iterdir()) if folder.is_dir() else []
        self.that(before == after, f"{what}: left {set(after) - set(before)}")

    def report(self) -> None:
        """Print the sums and exit, with 1 if anything failed."""
        percent = 100 * (self.n - self.failed) // max(self.n, 1)
        print(f"{percent}%: Checks: {self.n}, Failures: {self.failed}, Errors: 0")
        sys.exit(1 if self.failed else 0)
