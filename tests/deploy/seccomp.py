"""Compiles a seccomp profile in the form that container engines read, by Debian's libseccomp."""

import ctypes
import errno
import json
import os
from pathlib import Path

_ACTIONS = {"SCMP_ACT_ALLOW": 0x7FFF0000, "SCMP_ACT_ERRNO": 0x00050000}


def compile_profile(path: Path) -> bytes:
    """The filter program of the profile for this machine; names that this machine's kernel lacks are left out."""
    profile = json.loads(path.read_text())
    library = ctypes.CDLL("libseccomp.so.2")
    library.seccomp_init.restype = ctypes.c_void_p
    context = ctypes.c_void_p(library.seccomp_init(ctypes.c_uint32(_ACTIONS[profile["defaultAction"]])))
    for rule in profile["syscalls"]:
        action = ctypes.c_uint32(_ACTIONS[rule["action"]] | rule.get("errnoRet", errno.EPERM))
        for name in rule["names"]:
            number = library.seccomp_syscall_resolve_name(name.encode())
            if number >= 0:
                assert library.seccomp_rule_add(context, action, number, 0) == 0, name
    descriptor = os.memfd_create("filter")
    assert library.seccomp_export_bpf(context, descriptor) == 0
    library.seccomp_release(context)
    with os.fdopen(descriptor, "rb") as file:
        file.seek(0)
        return file.read()
