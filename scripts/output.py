"""Writing files, and the manners that all scripts share.

A file appears whole or not at all, with the mode and behind the links that were there; a device or
a pipe is written, never replaced; `-` is standard output. What goes wrong is one line.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import signal
import stat
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

DESCRIPTOR = re.compile(r"/(?:dev|proc/self)/fd/(\d+)")
STANDARD = {"-": 1, "/dev/stdout": 1, "/dev/stderr": 2}


class Failure(Exception):
    """Something is wrong with the input; the message is one line for the user."""


class Stopped(BaseException):
    """A signal that ends the process came."""

    def __init__(self, number: int) -> None:
        self.number = number


@contextlib.contextmanager
def stoppable() -> Iterator[None]:
    """SIGTERM and SIGHUP unwind what is under way, so that nothing half-made stays, and then end
    the process as they would have. A handler of somebody else's is left in place."""

    def stop(number: int, _frame: object) -> None:
        raise Stopped(number)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    signals = (signal.SIGTERM, signal.SIGHUP)
    ours = [number for number in signals if signal.getsignal(number) == signal.SIG_DFL]
    for number in ours:
        signal.signal(number, stop)
    try:
        yield
    except Stopped as stopped:
        signal.signal(stopped.number, signal.SIG_DFL)
        signal.raise_signal(stopped.number)
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)


def descriptor(path: Path) -> int | None:
    """The open file that a name stands for: 1 for `-`; None for other names."""
    if str(path) in STANDARD:
        return STANDARD[str(path)]
    match = DESCRIPTOR.fullmatch(str(path))
    return int(match[1]) if match else None


def is_regular(path: Path) -> bool:
    """Whether a file of that name would be an ordinary one, replaced by what is written."""
    return descriptor(path) is None and (not path.exists() or path.is_file())


def refuse_inputs(path: Path, inputs: Iterable[Path]) -> None:
    """An output over a file that is read is refused."""
    for source in inputs:
        if descriptor(path) is None and path.exists() and path.samefile(source):
            raise Failure(f"{path}: this is {source}, which is read; expected another file")


@contextlib.contextmanager
def open_output(path: Path, binary: bool = False) -> Iterator[BinaryIO]:
    """The stream to write `path` by. `binary` says that a terminal can't show it."""
    number = descriptor(path)
    if number is None and path.is_dir():
        raise Failure(f"{path} is a folder; a file name is wanted")
    if number is None and not path.parent.is_dir():
        raise Failure(f"{path}: there is no folder {path.parent}")
    if is_regular(path):
        with stoppable(), replaced(path) as stream:
            yield stream
        return
    try:
        with open(opened(path), "wb") as stream:
            if binary and stream.isatty():
                raise Failure(f"{path}: a terminal can't show it; expected a file or a pipe")
            yield stream
    except OSError as error:
        raise OSError(error.errno, error.strerror, error.filename or str(path)) from None


def opened(path: Path) -> int:
    """What is no file, opened for writing. A FIFO is only if somebody reads it: to wait for one
    could be for ever."""
    number = descriptor(path)
    if number is not None:
        sys.stdout.flush()
        return os.dup(number)
    try:
        handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError as error:
        if error.errno == errno.ENXIO and path.is_fifo():
            raise OSError(error.errno, "nobody reads from this pipe", str(path)) from None
        raise
    os.set_blocking(handle, True)
    return handle


def take_over(handle: int, old: os.stat_result) -> None:
    """Owner and mode as the old file has them, while nothing is written yet. Where the group can't
    be kept, another one may do no more than everybody."""

    def given(user: int, group: int) -> bool:
        try:
            os.fchown(handle, user, group)
        except OSError:
            return False
        return True

    made, mode = os.fstat(handle), stat.S_IMODE(old.st_mode)
    if made.st_uid != old.st_uid and not given(old.st_uid, -1):
        mode &= ~(stat.S_ISUID | stat.S_ISGID)
    if made.st_gid != old.st_gid and not given(-1, old.st_gid):
        mode &= ~(stat.S_ISUID | stat.S_ISGID | stat.S_IRWXG) | (mode & stat.S_IRWXO) << 3
    os.fchmod(handle, mode)


@contextlib.contextmanager
def replaced(path: Path) -> Iterator[BinaryIO]:
    """A temporary file beside the one that `path` leads to, which it replaces at the end."""
    target = Path(os.path.realpath(path))
    old = target.stat() if target.exists() else None
    if old is not None and not os.access(target, os.W_OK):
        raise PermissionError(13, "is read-only", str(path))
    mask = os.umask(0)
    os.umask(mask)
    temporary = None
    try:
        try:
            handle, temporary = tempfile.mkstemp(prefix=".locus-", dir=target.parent)
        except OSError as error:  # it names the temporary file
            raise OSError(error.errno, error.strerror, str(path)) from None
        with open(handle, "wb") as stream:
            if old is None:
                os.fchmod(handle, 0o666 & ~mask)
            else:
                take_over(handle, old)
            yield stream
        os.replace(temporary, target)
        temporary = None
    except OSError as error:
        where = str(path) if error.filename in (None, temporary) else error.filename
        raise OSError(error.errno, error.strerror or str(error), where) from None
    finally:
        if temporary is not None:
            os.unlink(temporary)


def write_text(path: Path, text: str) -> None:
    """Write a file of UTF-8."""
    with open_output(path) as stream:
        stream.write(text.encode())


def run(main: Callable[[], None]) -> None:
    """Run a script's main: a failure is one line on stderr and exit status 1."""
    program = Path(sys.argv[0]).name
    try:
        main()
    except Failure as failure:
        sys.exit(f"{program}: error: {failure}")
    except BrokenPipeError:  # who reads has enough
        sys.exit(1)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        sys.exit(f"{program}: error: {where}{error.strerror or error}")
    except MemoryError:
        sys.exit(f"{program}: error: out of memory")
    except KeyboardInterrupt:
        sys.exit(130)
