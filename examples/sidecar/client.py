"""Works while the sidecar leads: client.py http://127.0.0.1:4040/v1/elections/orders"""

import json
import sys
import time
import urllib.request

# No proxy: the sidecar listens on loopback.
http = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def now():
    """Seconds on a clock that also counts while the machine is suspended."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def lease(election):
    """Returns the fencing token and the end of the lease, or None while another candidate leads."""
    sent = now()
    try:
        with http.open(f"{election}/token", timeout=2) as reply:
            body = json.load(reply)
    except OSError:  # 503, or no answer.
        return None
    return body["token"], sent + body["lease_remaining_ms"] / 1000


def work(token):
    """Does one piece of work. Each write carries the token. The target refuses lower tokens."""
    print(f"write with token {token}", flush=True)


while True:
    held = lease(sys.argv[1])
    if held and now() < held[1]:
        work(held[0])
    time.sleep(0.5)
