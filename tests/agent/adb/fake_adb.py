"""An `adb` whose phones are folders: `fake_adb.py PHONES [-s SERIAL] VERB ...`. `phone.py` makes the folders.

`PHONES/devices` lists serials and states as adb does. Each phone is `PHONES/SERIAL`, with its files below `tree`. What
adb does that tests depend on is done here, too: arguments are joined and read by a shell of the phone; its input,
output, errors and exit code come through this process; when this process dies, the phone's side loses them and lives.
`PHONES/hang` lists verbs that never end, `PHONES/damage` a word in the name of files that arrive with another byte.
"""

import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

MAPPED = ("/data/local/tmp", "/sys/", "/proc/cpuinfo", "/proc/meminfo")


def words_of(path: Path) -> "list[str]":
    return path.read_text().split() if path.exists() else []


def die(text: str) -> None:
    print(text, file=sys.stderr)
    raise SystemExit(1)


def phone_of(phones: Path, serial: "str | None") -> Path:
    """The phone's folder, or the very words with which adb refuses."""
    states = dict(line.split("\t") for line in (phones / "devices").read_text().splitlines())
    if serial is None:
        if not states:
            die("adb: no devices/emulators found")
        if len(states) > 1:
            die("adb: more than one device/emulator")
        (serial,) = states
    if serial not in states:
        die(f"adb: device '{serial}' not found")
    if states[serial] == "unauthorized":
        die("adb: device unauthorized.\nThis adb server's $ADB_VENDOR_KEYS is not set")
    if states[serial] != "device":
        die(f"adb: device {states[serial]}")
    return phones / serial


def mapped(text: str, tree: Path) -> str:
    for path in MAPPED:
        text = text.replace(path, f"{tree}{path}")
    return text


def relay(source: int, target: int) -> None:
    try:
        while chunk := os.read(source, 65536):
            os.write(target, chunk)
    except OSError:
        pass
    os.close(target)


def shell(phone: Path, text: str, apart: bool) -> int:
    """Run it in the phone's shell, which goes on when this process is killed."""
    tree = phone / "tree"
    environment = {"PATH": f"{tree}/system/bin:/usr/bin:/bin", "PHONE": str(tree)}
    if (phone / "emulator.so").exists():
        environment["LD_PRELOAD"] = str(phone / "emulator.so")
    process = subprocess.Popen(
        ["/bin/sh", "-c", mapped(text, tree)],
        cwd=tree,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE if apart else subprocess.STDOUT,
        start_new_session=True,
    )
    assert process.stdin and process.stdout
    threading.Thread(target=relay, args=(0, os.dup(process.stdin.fileno())), daemon=True).start()
    process.stdin.close()
    pairs = [(process.stdout, 1)] + ([(process.stderr, 2)] if process.stderr else [])
    threads = [threading.Thread(target=relay, args=(stream.fileno(), number)) for stream, number in pairs]
    for thread in threads:
        thread.start()
    code = process.wait()
    for thread in threads:
        thread.join()
    return 128 - code if code < 0 else code


def push(phones: Path, phone: Path, source: str, target: str) -> int:
    place = Path(mapped(target, phone / "tree"))
    if (phone / "full").exists():
        die(f"adb: error: failed to copy '{source}' to '{target}': remote No space left on device")
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(source, place)
    place.chmod(place.stat().st_mode | 0o600)
    if any(word in source for word in words_of(phones / "damage")):
        place.write_bytes(place.read_bytes()[:-1] + b"\0")
    print(f"{source}: 1 file pushed, 0 skipped.")
    return 0


def main() -> int:
    phones, words = Path(sys.argv[1]), sys.argv[2:]
    serial = None
    if words[:1] == ["-s"]:
        serial, words = words[1], words[2:]
    verb, rest = words[0], words[1:]
    with (phones / "calls").open("a") as calls:
        calls.write(f"{verb}\n")
    while verb in words_of(phones / "hang"):
        time.sleep(0.02)
    if verb == "start-server":
        return 0
    if verb == "devices":
        print(f"List of devices attached\n{(phones / 'devices').read_text()}")
        return 0
    phone = phone_of(phones, serial)
    client = phone / "clients" / str(os.getpid())
    client.touch()
    try:
        if verb in ("shell", "exec-out"):
            return shell(phone, " ".join(rest), apart=verb == "shell")
        if verb == "push":
            return push(phones, phone, *rest)
        die(f"adb: unknown command {verb}")
    finally:
        client.unlink(missing_ok=True)
    return 1


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)
