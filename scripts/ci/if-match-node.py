"""scripts/ci/if-match-node.sh runs this program. It exits with 0 only if all assertions hold."""
import dataclasses
import json
import os
import subprocess
import sys
import time

import boto3
import botocore.exceptions

BUCKET = os.environ["TENURE_TEST_S3_BUCKET"]
PREFIX = f"if-match-{os.getpid()}"
KEY = f"{PREFIX}/lock.json"
STORE = f"s3://{BUCKET}/{PREFIX}"
SECONDS = 2.0
TAKEN = ("ConditionalRequestConflict", "PreconditionFailed")

client = boto3.client("s3")


@dataclasses.dataclass(frozen=True)
class Posted:
    """The fields and the parser of a lock, as in the If-Match post (see docs/how-to/upgrade.md)."""

    expires_at: float

    @classmethod
    def from_json(cls, data):
        return cls(**json.loads(data))


@dataclasses.dataclass(frozen=True)
class LockData:
    """The fields and the parser with the change that docs/how-to/upgrade.md describes."""

    expires_at: float
    token: int = 0

    @classmethod
    def from_json(cls, data):
        fields = json.loads(data)
        return cls(expires_at=fields["expires_at"], token=fields["token"])


def acquire(lock_data):
    """Returns the token of the lock that this node has taken, or None if another node holds it."""
    condition, token = {"IfNoneMatch": "*"}, 0
    try:
        found = client.get_object(Bucket=BUCKET, Key=KEY)
    except client.exceptions.NoSuchKey:
        pass
    else:
        known = lock_data.from_json(found["Body"].read().decode())
        if time.time() <= known.expires_at:
            return None
        condition, token = {"IfMatch": found["ETag"]}, known.token + 1
    body = dataclasses.asdict(lock_data(expires_at=time.time() + SECONDS, token=token))
    try:
        client.put_object(Bucket=BUCKET, Key=KEY, Body=json.dumps(body), **condition)
    except botocore.exceptions.ClientError as error:
        if error.response["Error"]["Code"] in TAKEN:
            return None
        raise
    return token


PYTHON = f"""
import signal, sys, tenure, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit())
election = tenure.Election({STORE!r}, name="worker-7", validity=3, layout="single-object")
with election.campaign() as leadership:
    print(leadership.check(), flush=True)
    time.sleep(float(sys.argv[1]))
"""


def lead(seconds):
    """Leads with the command, or with the Python package. Prints the token."""
    if command := os.environ.get("TENURE"):
        program = f'echo "$TENURE_EPOCH"; exec sleep {seconds}'
        arguments = [command, "run", "--store", STORE, "--layout", "single-object"]
        arguments += ["--name", "worker-7", "--validity", "3s", "--", "sh", "-c", program]
    else:
        arguments = [sys.executable, "-c", PYTHON, str(seconds)]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)


def wait_for(what, attempt, seconds=60):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        result = attempt()
        if result is not None:
            return result
        time.sleep(0.1)
    raise AssertionError(f"not within {seconds} s: {what}")


assert acquire(LockData) == 0, "the node creates the lock"
assert acquire(LockData) is None, "the lock of the node has not expired"

leader = lead(600)
assert leader.stdout.readline().strip() == "1", "tenure continues after token 0 of the node"
assert acquire(LockData) is None, "the node waits for the leader"
try:
    acquire(Posted)
except TypeError as error:
    print("the unchanged class of the post fails, as expected:", error)
else:
    raise AssertionError("the unchanged class of the post reads a record of tenure")

leader.terminate()
leader.wait()
token = wait_for("the node takes the released lock", lambda: acquire(LockData))
assert token == 2, token

successor = lead(0)
assert successor.communicate(timeout=120)[0].strip() == "3", "tenure continues after token 2"
assert successor.returncode == 0, successor.returncode
print("the node and tenure got the tokens 0 to 3 in turns")
