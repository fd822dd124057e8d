"""The build worker, the only part of the service that imports the compiler; a process of its own per task.

It has a folder and nothing else: no database, no store, no settings. `python -m pock_server.worker build FOLDER` reads
FOLDER/task.json and the files below FOLDER/model, compiles, leaves FOLDER/out/artifact.pock, and says on stdout, as
JSON lines, how far it is: `progress`, `log`, and at the end `artifact` or `failed`. A search reads data as well, and
leaves recipe.yaml, found.json and report.html in FOLDER/out. `python -m pock_server.worker describe` says one line
`compiler`: its version and targets. The runner that started it listens, and trusts nothing.
"""
