"""The object store: an object is written, read, read in part, and deleted."""

import os
from collections.abc import Iterator

import obstore

from pock_server.blobs.opening import open_store
from pock_server.doctor.findings import Finding, fail, ok
from pock_server.settings import Settings

_SIZE = 4096


def check(settings: Settings) -> Iterator[Finding]:
    """Do what the service will do."""
    where = settings.store_url or "the folder `objects`"
    if not settings.store_url and not settings.data_dir.exists():
        yield ok("store", f"{where} is made at the first start")
        return
    objects, key, data = open_store(settings).objects, f"doctor-{os.urandom(8).hex()}", os.urandom(_SIZE)
    doing, wrong = "write", None
    try:
        obstore.put(objects, key, data)
        try:
            doing = "read"
            if bytes(obstore.get(objects, key).bytes()) != data:
                wrong = f"{where} gives back other bytes than were written; use another store."
            doing = "read a part of"
            if bytes(obstore.get_range(objects, key, start=100, length=10)) != data[100:110]:
                wrong = wrong or f"{where} does not honour ranges; use another store."
            doing = "delete"
        finally:
            obstore.delete(objects, key)
    except Exception as error:
        reason = str(error).strip().partition("\n")[0]
        wrong = wrong or f"it was not possible to {doing} an object in {where}: {reason}"
    yield fail("store", wrong) if wrong else ok("store", f"writes, reads, ranges and deletes work in {where}")
