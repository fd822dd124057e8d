"""Who may read the metrics: whoever has the token; without one, peers on this machine, unless a proxy sent them."""

import hmac
import ipaddress

from starlette.requests import Request

from pock_server.http.problems import Failure, Problem

_FORWARDED = ("Forwarded", "X-Forwarded-For", "X-Real-IP", "Via")


def check_reader(request: Request, token: str) -> None:
    """Raise a 401 `Problem` unless the request may read the metrics."""
    if token:
        kind, _, offered = request.headers.get("Authorization", "").partition(" ")
        if kind.lower() == "bearer" and hmac.compare_digest(offered.strip().encode(), token.encode()):
            return
        detail = "Send the token of POCK_METRICS_TOKEN as `Authorization: Bearer <token>`."
    elif _is_local(request):
        return
    else:
        detail = (
            "Metrics are for this machine only; set POCK_METRICS_TOKEN or POCK_METRICS_PORT to read them elsewhere."
        )
    raise Problem(Failure.KEY_UNKNOWN, detail, {"WWW-Authenticate": "Bearer"})


def _is_local(request: Request) -> bool:
    if request.client is None or any(name in request.headers for name in _FORWARDED):
        return False
    try:
        return ipaddress.ip_address(request.client.host).is_loopback
    except ValueError:
        return False
