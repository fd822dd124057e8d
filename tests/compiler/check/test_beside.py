"""A question answered in another process."""

from __future__ import annotations

import os
import threading

import pytest

from pockengine.check.beside import beside


def test_the_answer_comes_from_another_process():
    answers = [beside(lambda: (os.getpid(), "plain")) for _ in range(2)]
    for answer in answers:
        process, told = answer()
        assert told == "plain"
        assert process != os.getpid() or len(os.sched_getaffinity(0)) < 2
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)  # nothing is left behind


def test_an_error_is_raised_here():
    def question() -> None:
        raise ValueError(f"asked in {os.getpid()}")

    with pytest.raises(ValueError, match=f"asked in {os.getpid()}"):
        beside(question)()


def test_a_process_that_dies_is_made_good_for():
    here = os.getpid()

    def question() -> str:
        if os.getpid() != here:
            os._exit(3)
        return "answered"

    assert beside(question)() == "answered"


def test_nothing_is_forked_while_other_threads_run():
    done = threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    try:
        assert beside(os.getpid)() == os.getpid()
    finally:
        done.set()
        thread.join()
