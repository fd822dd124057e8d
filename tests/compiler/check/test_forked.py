"""A question answered in another process."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest

from pockengine.check.forked import in_fork


@pytest.mark.skipif(sys.platform != "linux" or len(os.sched_getaffinity(0)) < 2, reason="answers come from here")
def test_the_answer_comes_from_another_process():
    program = (
        "import os\n"
        "from pockengine.check.forked import in_fork\n"
        "for answer in [in_fork(lambda: (os.getpid(), 'plain')) for _ in range(2)]:\n"
        "    process, told = answer()\n"
        "    assert told == 'plain' and process != os.getpid()\n"
        "try:\n"
        "    os.waitpid(-1, os.WNOHANG)\n"
        "except ChildProcessError:\n"
        "    print('nothing is left behind')\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "nothing is left behind\n"


def test_an_error_is_raised_here():
    def question() -> None:
        raise ValueError(f"asked in {os.getpid()}")

    with pytest.raises(ValueError, match=f"asked in {os.getpid()}"):
        in_fork(question)()


def test_a_process_that_dies_is_made_good_for():
    here = os.getpid()

    def question() -> str:
        if os.getpid() != here:
            os._exit(3)
        return "answered"

    assert in_fork(question)() == "answered"


def test_nothing_is_forked_while_other_threads_run():
    done = threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    try:
        assert in_fork(os.getpid)() == os.getpid()
    finally:
        done.set()
        thread.join()
