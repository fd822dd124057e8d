"""The thread pool on its own: every share of every job is done exactly once, by whomever, also where threads outnumber
cores and workers sleep."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from pockengine.codegen.native.toolchain import RUNTIME, ZIG_FOLDER, zig_cache
from pockengine.targets import get
from pockengine.targets.processor import ZIG

PROGRAM = """
#include "platform.h"
#include "threads.h"
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static int done[16][16]; /* how often each share ran, a line apart */

static void count(void *const *arg, int task, int tasks) {
    const struct timespec nap = {0, 50000};
    if (*(const int *)arg[0] % 500 == task % tasks) {
        nanosleep(&nap, NULL); /* one is late now and then, sometimes the caller */
    }
    done[task][0]++;
}

int main(int argc, char **argv) {
    pock_error error;
    pock_pool *pool;
    const int threads = atoi(argv[argc - 1]), rounds = 3000;
    if (pock_pool_open(&pool, (uint32_t)threads, &error)) {
        return 1;
    }
    for (int round = 0; round < rounds; round++) {
        void *arg[1] = {&round};
        pock_pool_run(pool, count, arg);
        for (int share = 0; share < threads; share++) {
            if (done[share][0] != round + 1) {
                printf("after job %d share %d ran %d times\\n", round, share, done[share][0]);
                return 2;
            }
        }
    }
    pock_pool_close(pool);
    return 0;
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pool")
    source, built = folder / "main.c", folder / "main"
    source.write_text(PROGRAM)
    places = {"ZIG_GLOBAL_CACHE_DIR": str(zig_cache()), "ZIG_LOCAL_CACHE_DIR": str(folder / "zig")}

    def zig(*arguments: str) -> None:
        command = [str(ZIG), "cc", "-target", get("host").triple, "-O2", "-fno-sanitize=undefined", *arguments]
        subprocess.run(command, check=True, capture_output=True, cwd=ZIG_FOLDER, env={**os.environ, **places})

    objects = []
    for path in (source, RUNTIME / "threads.c", RUNTIME / "error.c"):
        objects.append(str(folder / f"{path.stem}.o"))
        zig("-g0", "-fPIC", f"-I{RUNTIME}", "-c", str(path), "-o", objects[-1])
    zig("-s", "-static", *objects, "-o", str(built))  # as the toolchain links, whose C library is built already
    return built


@pytest.mark.parametrize("threads", [2, 3, 8])
def test_each_share_is_done_once(program: Path, threads: int) -> None:
    done = subprocess.run([str(program), str(threads)], capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout) == (0, "")
