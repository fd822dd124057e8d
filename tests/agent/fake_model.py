"""The text of an executable that follows docs/reference/binary.md and trains nothing: what it does is told by its data.

A data set is a safetensors file whose metadata has, under `told`, a JSON object `{program: instructions}`.
Instructions: `steps_ms`, `print`, `stderr`, `exit`, `signal`, `overwrite` (path), `hold_seconds`,
`hang_after` (a step) with `hang_at` (a path), `step_seconds`, `knows_no_pause` and `ignores_signals` (SIGTERM),
`hang_while` (a path: hang as long as it exists), `allocate` (bytes), `write` (bytes), `connect` (port), `read` (path),
`leave_child`, `leave` (hexadecimal: the trained weights). What it finds out goes into its report under `found`.
"""

import json
import struct
import textwrap

SOURCE = textwrap.dedent("""\
    #!/bin/sh
    exec python3 -IS -c "$(tail -n +3 "$0")" "$@"
    import json, os, signal, sys, time

    def say(**event):
        print(json.dumps(event), flush=True)

    program, words = sys.argv[1], [word for word in sys.argv[2:] if word != "--profile"]
    options = dict(zip(words[::2], words[1::2]))
    data = open(options["--data"], "rb").read()
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    told = json.loads(header["__metadata__"]["told"])
    mine = told.get(program + "_loaded" if "--load" in options else program, told.get(program, {}))
    steps = int(options.get("--steps", 0))
    for needed in ("--params", "--threads", "--report"):
        if needed not in options:
            sys.exit("missing " + needed)
    first_step = json.load(open(options["--resume"]))["step"] if "--resume" in options else 0
    every = int(options.get("--checkpoint-every", 0))
    asked = []
    if every and not mine.get("knows_no_pause"):
        signal.signal(signal.SIGTERM, lambda *unused: asked.append(1))
    if mine.get("ignores_signals"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)

    def save(step):
        with open(options["--checkpoint"] + ".new", "w") as file:
            json.dump({"step": step}, file)
        os.rename(options["--checkpoint"] + ".new", options["--checkpoint"])
        say(event="saved", path=options["--checkpoint"])

    weights = open(options.get("--load", options["--params"]), "rb").read()
    threads = int(options["--threads"])
    say(event="start", entry=program, threads=threads, steps=steps, first_step=first_step, pid=os.getpid())
    found = {"uid": os.getuid(), "environment": sorted(os.environ), "weights": len(weights)}
    losses, samples, times = [], [], mine.get("steps_ms", [1.0])
    for step in range(first_step + 1, steps + 1):
        loss, ms = 1.0 / (step + int(options.get("--seed", 0))), times[(step - 1) % len(times)]
        losses.append(loss)
        samples.append(ms)
        say(event="step", step=step, loss=loss, ms=ms)
        if every and step % every == 0:
            save(step)
        while step == mine.get("hang_after") and os.path.exists(mine["hang_at"]) and not asked:
            time.sleep(0.01)
        time.sleep(mine.get("step_seconds", 0))
        if asked and step < steps:
            save(step)
            sys.exit(7)
    while os.path.exists(mine.get("hang_while", "")):
        time.sleep(0.01)
    for line in mine.get("print", []):
        print(line, flush=True)
    if "leave_child" in mine and os.fork() == 0:
        time.sleep(60)
        os._exit(0)
    if "allocate" in mine:
        try:
            held = bytearray(mine["allocate"])
            time.sleep(mine.get("hold_seconds", 0))
        except MemoryError:
            print("not enough memory", file=sys.stderr)
            sys.exit(5)
    if "write" in mine:
        try:
            open("out/big", "wb").write(bytes(mine["write"]))
        except OSError as error:
            print("cannot write out/big: " + error.strerror, file=sys.stderr)
            sys.exit(4)
    if "connect" in mine:
        import socket
        try:
            socket.create_connection(("127.0.0.1", mine["connect"]), timeout=2).close()
            found["connected"] = True
        except OSError as error:
            found["connected"] = False
    for path in mine.get("read", []):
        try:
            found["read " + path] = len(open(path, "rb").read())
        except OSError as error:
            found["read " + path] = error.strerror
    if "overwrite" in mine:
        try:
            open(mine["overwrite"], "r+b").write(b"x")
            found["overwrote"] = True
        except OSError:
            found["overwrote"] = False
    if "signal" in mine:
        os.kill(os.getpid(), mine["signal"])
    if "exit" in mine:
        print(mine.get("stderr", "told to fail"), file=sys.stderr)
        sys.exit(mine["exit"])
    for saving in ("--save", "--save-trained"):
        if saving in options:
            trained = bytes.fromhex(mine["leave"]) if "leave" in mine else b"trained " + weights
            open(options[saving], "wb").write(trained)
            found["saving"] = saving
            say(event="saved", path=options[saving])
    watching = ("--eval-share", "--eval-seed", "--eval-every", "--patience")
    found["watching"] = {name: options[name] for name in watching if name in options}
    if "--load" in options:
        found["loaded"] = weights[:1000].hex()
    report = {"entry": program, "steps": len(losses), "loss": losses, "peak_rss_bytes": 12345678, "found": found,
              "cold_start_ms": 5.0, "step_ms": {"median": 1.0, "p10": 1.0, "p90": 1.0, "samples": samples}}
    if "--profile" in sys.argv:
        report["kernels"] = [{"name": "conv", "kernel": "k_1", "node": 0, "ms": 0.5, "flops": 9, "bytes": 36}]
    if program == "eval":
        report.update(samples=10, loss=[0.5], accuracy=0.25 if "--load" not in options else 0.75)
        say(event="eval", samples=10, loss=0.5, accuracy=report["accuracy"])
    json.dump(report, open(options["--report"], "w"))
    say(event="done", report=report)
""").encode()


def dataset(told: object) -> bytes:
    """A data set of two samples that tells the executable what to do."""
    header = {
        "__metadata__": {"told": json.dumps(told)},
        "input": {"dtype": "F32", "shape": [2, 4], "data_offsets": [0, 32]},
        "labels": {"dtype": "I64", "shape": [2], "data_offsets": [32, 48]},
    }
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + bytes(48)
