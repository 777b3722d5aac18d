"""A nightly job that runs on one of many hosts. Start it by cron on each host, at 3:00 UTC.

Install tenure. The other hosts wait for the end of the job.

    STORE=s3://my-bucket/nightly python nightly_job.py
"""

import logging
import os

import tenure

STORE = os.environ.get("STORE", "./nightly")


# With `liveness`, the host resigns after 10 minutes without `check()`.
@tenure.once_per("1d", STORE, offset="3h", retries=2, liveness=600)
def report(leadership: tenure.Leadership) -> str:
    """Send the report. The token lets the receiver refuse a late host."""
    for page in range(3):
        token = leadership.check()  # also shows that the job is alive
        print("sent page", page, "with token", token)
    return "sent"


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    print(report() or "this host has sent no report")
    print("the last period:", tenure.last_period(STORE))  # shows who has sent it, or the failure
