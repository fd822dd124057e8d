"""An S3 server of one process: OpenStack Swift's four servers with its S3 middleware, one device, one replica.

`/usr/bin/python3 swift_s3.py FOLDER ACCOUNT:USER SECRET BUCKET` makes the bucket, serves until it is killed, and says
on stdout, as one JSON line, where: `{"endpoint": "http://127.0.0.1:PORT"}`. Run it with the Python that Debian's
`python3-swift` belongs to; `ACCOUNT:USER` is the access key.
"""

import json
import os
import sys
import time
from pathlib import Path

import eventlet

eventlet.monkey_patch()

from eventlet import wsgi  # noqa: E402
from swift.common import utils  # noqa: E402

KINDS = ("account", "container", "object")
_HASH = """[swift-hash]
swift_hash_path_suffix = test
swift_hash_path_prefix = test
[storage-policy:0]
name = only
default = yes
"""
_COMMON = """[DEFAULT]
swift_dir = {folder}
devices = {folder}/devices
mount_check = false
log_level = ERROR
"""
_PROXY = """[pipeline:main]
pipeline = catch_errors proxy-logging s3api tempauth slo proxy-server
[app:proxy-server]
use = egg:swift#proxy
account_autocreate = true
node_timeout = 30
recoverable_node_timeout = 30
[filter:catch_errors]
use = egg:swift#catch_errors
[filter:proxy-logging]
use = egg:swift#proxy_logging
[filter:s3api]
use = egg:swift#s3api
s3_acl = false
location = us-east-1
min_segment_size = 1
auth_pipeline_check = false
[filter:tempauth]
use = egg:swift#tempauth
user_{account}_{user} = {secret} .admin
[filter:slo]
use = egg:swift#slo
"""
_STORAGE = """[pipeline:main]
pipeline = {kind}-server
[app:{kind}-server]
use = egg:swift#{kind}
"""


class Cache:
    """What Swift asks of memcached, in this process: it never expires, because nothing else writes here."""

    def __init__(self):
        self._values = {}

    def get(self, key, raise_on_error=False):
        return self._values.get(key)

    def set(self, key, value, **_):
        self._values[key] = json.loads(json.dumps(value))

    def delete(self, key, server_key=None):
        self._values.pop(key, None)

    def incr(self, key, delta=1, time=0):
        self._values[key] = self._values.get(key, 0) + delta
        return self._values[key]


def main() -> None:
    """Serve."""
    folder, access_key, secret, bucket = Path(sys.argv[1]), *sys.argv[2:5]
    account, _, user = access_key.partition(":")
    (folder / "devices" / "disk").mkdir(parents=True, exist_ok=True)  # exists where it was killed before
    (folder / "swift.conf").write_text(_HASH)
    utils.SWIFT_CONF_FILE = str(folder / "swift.conf")
    from swift.common.ring import RingBuilder  # these read the file above when they are imported
    from swift.common.swob import Request
    from swift.common.wsgi import SwiftHttpProtocol, loadapp

    os.environ["TZ"] = "UTC+0"
    time.tzset()
    utils.validate_configuration()
    sockets = {kind: eventlet.listen(("127.0.0.1", 0)) for kind in (*KINDS, "proxy")}
    for kind in KINDS:
        builder = RingBuilder(part_power=4, replicas=1, min_part_hours=1)
        place = {"region": 1, "zone": 1, "ip": "127.0.0.1", "port": sockets[kind].getsockname()[1]}
        builder.add_dev({**place, "id": 0, "device": "disk", "weight": 1.0})
        builder.rebalance()
        builder.get_ring().save(str(folder / f"{kind}.ring.gz"))
    servers = []
    cache = Cache()
    for kind, socket in sockets.items():
        text = (
            _PROXY.format(account=account, user=user, secret=secret) if kind == "proxy" else _STORAGE.format(kind=kind)
        )
        conf = folder / f"{kind}.conf"
        conf.write_text(_COMMON.format(folder=folder) + text)
        app = loadapp(str(conf), global_conf={"log_name": kind})
        served = lambda environ, start, app=app: app({**environ, "swift.cache": cache}, start)  # noqa: E731
        options = {"protocol": SwiftHttpProtocol, "socket_timeout": 60, "capitalize_response_headers": False}
        servers.append(eventlet.spawn(wsgi.server, socket, served, utils.NullLogger(), **options))
    environ = {"REQUEST_METHOD": "PUT", "swift.authorize_override": True, "swift.cache": cache}
    made = Request.blank(f"/v1/AUTH_{account}/{bucket}", environ=environ).get_response(app)
    assert made.status_int in (201, 202), made.status
    print(json.dumps({"endpoint": f"http://127.0.0.1:{sockets['proxy'].getsockname()[1]}"}), flush=True)
    for server in servers:
        server.wait()


if __name__ == "__main__":
    main()
