"""Confines the processes that work on what users sent: own files, own processes, no network, an unprivileged user,
bounded memory, time, files and disk. Knows nothing of builds.

`choice` finds what this machine can do, `view` says what a child sees, `bubblewrap` and `namespaces` make it so,
`enter` is what the child executes first, and reports from inside; `memory` and `usage` bound all of its processes.
"""
