"""The device agent: enrols, polls for signed work, verifies it, runs it confined and reports the result.

It runs on the device, on Python 3.9 and later with `cryptography` as its only dependency, and must know neither the
compiler nor the server: `docs/reference/api.md` and `docs/reference/binary.md` are all that it shares with them.

Its rooms, from the top; each imports only from those below it:

    cli                          the command `pock-agent`
    care                         looks after a device for its owner: doctor, the systemd unit
    life                         enrols, waits for work, hands each job over
    update                       replaces the agent by a newer version, and goes back
    job                          one job, from accepted to reported
    trust                        what is believed, and whose signatures count
    connection                   how the agent speaks with the service
    disk, device, confinement    what it keeps, what it runs on, how it runs a program; they do not know each other
    errors, settings, values     what every room uses
"""

__version__ = "0.1.0"
