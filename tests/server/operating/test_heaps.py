"""Memory of one process of the service: its threads share the heaps of the C library."""

import platform
import subprocess
import sys
from pathlib import Path

_HEAPS = """
import ctypes, sys, threading
from pock_server.processes.one import share_heaps
if sys.argv[1] == "shared":
    share_heaps()
libc = ctypes.CDLL(None)
libc.fopen.restype = ctypes.c_void_p
together = threading.Barrier(8)
def work():
    together.wait()
    libc.malloc(100_000)
    together.wait()
threads = [threading.Thread(target=work) for _ in range(8)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
report = ctypes.c_void_p(libc.fopen(sys.argv[2].encode(), b"w"))
libc.malloc_info(0, report)
libc.fclose(report)
"""


def test_threads_share_the_heaps_of_the_c_library(tmp_path: Path) -> None:
    def heaps(how: str) -> int:
        report = tmp_path / how
        subprocess.run([sys.executable, "-c", _HEAPS, how, str(report)], check=True, timeout=60)
        return report.read_text().count("<heap nr=")

    if "glibc" in platform.libc_ver():
        assert heaps("shared") <= 2 < heaps("own")
