"""The build worker, the only part of the service that imports the compiler; a process of its own per build.

`python -m pock_server.worker BUILD_ID` reads the build's row, compiles, stores the result as blobs, and says on stdout,
as JSON lines, how far it is: `progress`, `log`, and at the end `artifact` or `failed`. It never writes to the database:
the runner that started it does. `python -m pock_server.worker describe` writes the compiler's version and targets to a
file.
"""
