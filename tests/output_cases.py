#!/usr/bin/env python3
"""Cases of what the scripts write, in one process: output_cases.py FOLDER.

FOLDER is an empty one to work in. Prints as convert_cases.py does.
"""

from __future__ import annotations

import contextlib
import io
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "scripts"))

import convert_hf
import output
from checks import Checks
from convert_cases import convert, gpt2_folder, has_torch, tensors

NOBODY = 65534


def check_outputs(checks: Checks, work: Path) -> None:
    """What is written replaces files alone, as they were; all else is written where it is."""
    folder = gpt2_folder(work / "source", tensors())
    place = work / "outputs"
    place.mkdir()
    wanted = convert(folder, place / "plain")

    def same(name: str, path: Path) -> None:
        checks.that(path.read_bytes() == wanted, f"{name}: other bytes")
        left = [p.name for p in place.iterdir() if p.name.startswith(".locus-")]
        checks.that(not left, f"{name}: left {left}")

    private = place / "private"
    private.write_text("old")
    private.chmod(0o600)
    convert(folder, private)
    same("an old file", private)
    checks.that(stat.S_IMODE(private.stat().st_mode) == 0o600, "its mode is kept")
    mask = os.umask(0o027)
    convert(folder, place / "new")
    os.umask(mask)
    checks.that(stat.S_IMODE((place / "new").stat().st_mode) == 0o640, "umask holds")
    link, hanging = place / "link", place / "hanging"
    link.symlink_to("target")
    (place / "target").write_text("old")
    convert(folder, link)
    same("a link's target", place / "target")
    hanging.symlink_to("not-yet")
    convert(folder, hanging)
    same("a hanging link's target", place / "not-yet")
    checks.that(link.is_symlink() and hanging.is_symlink(), "links stay links")
    longest = place / ("n" * 255)
    convert(folder, longest)
    same("a name of 255 bytes", longest)
    with (place / "stream").open("wb") as stream:
        subprocess.run(convert_command(folder, "-"), stdout=stream, check=True)
    same("standard output", place / "stream")
    with (place / "stream").open("wb") as stream:
        number = stream.fileno()
        command = convert_command(folder, f"/dev/fd/{number}")
        subprocess.run(command, pass_fds=(number,), check=True)
    same("/dev/fd", place / "stream")
    piped = subprocess.run(convert_command(folder, "/dev/stdout"), stdout=subprocess.PIPE)
    checks.that(piped.stdout == wanted, "/dev/stdout, a pipe")
    check_pipe(checks, folder, place, wanted)
    check_owner(checks, place)
    check_device(checks, folder, place)
    for name in ("model.safetensors", "config.json", "merges.txt"):
        path = folder / name
        before = path.read_bytes()
        words = "which is read"
        checks.refused(f"over {name}", words, lambda p=path: convert(folder, p), folder)
        checks.that(path.read_bytes() == before, f"{name} is as it was")
    alias = place / "alias"
    alias.hardlink_to(folder / "config.json")
    checks.refused("another name", "which is read", lambda: convert(folder, alias), place)
    if os.geteuid() != 0:  # root may write it
        private.chmod(0o400)
        checks.refused("read-only", "read-only", lambda: convert(folder, private), place)
    check_signals(checks, place)


def convert_command(folder: Path, output: str) -> list[str]:
    script = str(Path(convert_hf.__file__))
    return [sys.executable, script, str(folder), "-o", output, "--name", "tiny"]


def check_pipe(checks: Checks, folder: Path, place: Path, wanted: bytes) -> None:
    """A FIFO is written to who reads it; that nobody does is said at once."""
    pipe = place / "pipe"
    os.mkfifo(pipe)
    unread = "nobody reads from this pipe"
    late = "import sys, time\nwhile True:\n    time.sleep(60)\n    open(sys.argv[1]).close()\n"
    command = [sys.executable, "-c", late, str(pipe)]
    with subprocess.Popen(command) as reader:  # a writer that waits goes on then
        checks.refused("a pipe", unread, lambda: convert(folder, pipe), place)
        if has_torch() and find_spec("tokenizers"):
            log = import_module("progress").Log
            checks.refused("a log", unread, lambda: log(pipe, 0), place)
        reader.kill()
    with pipe.open("r+b", buffering=0) as stream:  # both ends; the file fits in
        done = subprocess.run(convert_command(folder, str(pipe)), check=False)
        checks.that(done.returncode == 0, "a pipe that is read")
        checks.that(stream.read(len(wanted) + 1) == wanted, "a pipe: other bytes")
    checks.that(pipe.is_fifo(), "the pipe stays one")
    pipe.unlink()


def mode_of(file: Path | int) -> int:
    return stat.S_IMODE(os.stat(file).st_mode)


@contextlib.contextmanager
def as_nobody() -> Iterator[None]:
    """Root is somebody without rights for a while."""
    group, groups = os.getegid(), os.getgroups()
    os.setgroups([])
    os.setegid(NOBODY)
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(group)
        os.setgroups(groups)


def check_owner(checks: Checks, place: Path) -> None:
    """Owner and mode are the old file's from the first byte on; of what can't be kept no right is
    left to others."""
    old = place / "owned"
    old.write_text("old")
    for mode in (0o600, 0o644, 0o640, 0o755):
        old.chmod(mode)
        with output.open_output(old) as stream:
            checks.that(mode_of(stream.fileno()) == mode, f"{mode:o} while it is written")
        checks.that(mode_of(old) == mode, f"{mode:o} then")
    if os.geteuid() != 0:
        print("skipped: owners (not permitted here)")
        return
    old.chmod(0o640)
    os.chown(old, 1234, 2345)
    output.write_text(old, "new")
    found = old.stat()
    checks.that((found.st_uid, found.st_gid, mode_of(old)) == (1234, 2345, 0o640), "an owner")
    for mode, wanted in ((0o6775, 0o755), (0o660, 0o600), (0o664, 0o644), (0o607, 0o607)):
        old.chmod(mode)
        before = old.stat()
        with (place / "made").open("wb") as stream:
            os.fchown(stream.fileno(), NOBODY, NOBODY)
            with as_nobody():
                output.take_over(stream.fileno(), before)
            found = os.fstat(stream.fileno())
            checks.that(found.st_uid == found.st_gid == NOBODY, "another's file")
            checks.that(mode_of(stream.fileno()) == wanted, f"{mode:o}: {found.st_mode:o}")
    (place / "made").unlink()
    old.unlink()


def check_device(checks: Checks, folder: Path, place: Path) -> None:
    """A device is written, and stays one."""
    device = place / "device"
    try:
        os.mknod(device, 0o600 | stat.S_IFCHR, os.makedev(1, 3))  # a null of its own
        device.write_bytes(b"")
    except OSError:
        print("skipped: a device as output (not permitted here)")
        device.unlink(missing_ok=True)
        return
    with contextlib.redirect_stderr(io.StringIO()):
        convert_hf.convert(folder, device, "f32", "tiny")
        output.write_text(device, "text")
        save_state(device)
    checks.that(stat.S_ISCHR(device.stat().st_mode), "a device stays one")
    device.unlink()


def save_state(path: Path) -> None:
    """What the trainer writes on its way, where it can be had."""
    if has_torch() and find_spec("tokenizers"):
        progress = import_module("progress")
        progress.save_state(path, {"kept": {}})
        log = progress.Log(path, 0)
        log.row(1)
        log.close()


def check_signals(checks: Checks, place: Path) -> None:
    """A signal in the middle of a file leaves the old one, and nothing else."""
    old = place / "old"
    code = (
        "import os, signal, sys; from pathlib import Path; from output import open_output, run\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a shell's & ignores it
        "signal.signal(signal.SIGHUP, signal.SIG_DFL)\n"  # as nohup does this one
        "def main():\n"
        "    with open_output(Path(sys.argv[1])) as file:\n"
        "        file.write(b'half'); file.flush()\n"
        "        os.kill(os.getpid(), int(sys.argv[2])); signal.pause()\n"
        "run(main)\n"
    )
    before = sorted(place.iterdir())
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        old.write_text("old")
        done = subprocess.run(
            [sys.executable, "-c", code, str(old), str(int(number))],
            cwd=Path(convert_hf.__file__).parent,
            check=False,
        )
        status = 130 if number == signal.SIGINT else -number
        checks.that(done.returncode == status, f"{number.name}: status {done.returncode}")
        checks.that(old.read_text() == "old", f"{number.name}: the old file stays")
        old.unlink()
        checks.that(sorted(place.iterdir()) == before, f"{number.name} leaves nothing")


def main() -> None:
    checks = Checks()
    check_outputs(checks, Path(sys.argv[1]))
    checks.report()


if __name__ == "__main__":
    main()
