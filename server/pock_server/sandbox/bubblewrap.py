"""Confinement by bubblewrap: https://github.com/containers/bubblewrap."""

import os
import shutil

from pock_server.sandbox.view import View

PROGRAM = "bwrap"


def command(view: View, scratch: str, drops_user: bool) -> list[str]:
    """The command line, to which the program is appended; `scratch` is a folder of this machine that becomes /tmp.

    As root, it keeps the two capabilities that `enter` needs to become another user, if it is to.
    """
    line = [shutil.which(PROGRAM) or PROGRAM, "--die-with-parent", "--new-session"]
    line += ["--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
    if os.geteuid() != 0:
        line += ["--unshare-user", "--disable-userns"]
    elif drops_user:
        line += ["--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
    line += ["--bind", scratch, "/tmp"]  # before the places: some may lie in this machine's /tmp
    for folder in view.folders():
        line += ["--perms", "0755", "--dir", folder]
    for place in view.places:
        line += ["--bind" if place.writable else "--ro-bind", place.host, place.inside]
    for name, target in view.links.items():
        line += ["--symlink", target, name]
    line += ["--proc", "/proc", "--dev", "/dev"]
    return [*line, "--remount-ro", "/", "--chdir", "/", "--"]
