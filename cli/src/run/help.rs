//! The text below the options of `tenure run --help`.

use crate::args::common::after_help;

pub const AFTER_RUN: &str = after_help!(
    "\
CMD runs in a separate process group, with TENURE_EPOCH (the fencing token), TENURE_NAME and \
TENURE_STORE in its environment. After the end of CMD, its remaining descendants get SIGTERM, and \
SIGKILL after the grace. Once all descendants of CMD have ended, `tenure` resigns the leadership.

With --try, or --no-wait, `tenure` exits immediately if another candidate leads. With --wait 15s \
it waits for the lease for 15s first. With --once-per, CMD also has TENURE_PERIOD_START, \
TENURE_ATTEMPT and TENURE_LAST_COMPLETED (the start of the last completed period, empty before the \
first). In one period CMD starts at most once, or at most N+1 times with --retries N, and its runs \
never overlap.

When the lease is at risk, a guard process sends SIGTERM to the process group of CMD, and to \
descendants outside the group whose parents have ended. After the grace all descendants get \
SIGKILL, at the latest max(200ms, VALIDITY/20) before the lease ends. The guard does this even if \
`tenure` is stopped or killed.

If `tenure` is killed, CMD gets SIGTERM immediately. SIGKILL follows after the grace, but always \
before the lease ends. Once all descendants have ended, the guard resigns the leadership. On \
systems other than Linux, or if the guard is killed too, the lease lapses instead. After a \
deposition, CMD gets SIGTERM immediately, and SIGKILL shortly before the lease ends.

If the guard is killed, CMD and its descendants are killed. If `tenure` and the guard are stopped, \
the kernel kills the guard before the lease ends. If the parent of the guard is stopped, too, the \
kernel kills CMD, and the descendants of CMD are killed when that parent continues.

--on-elected runs at the same time as CMD and under the same guard. It gets SIGTERM and SIGKILL \
like the descendants of CMD, and `tenure` resigns only after its end. --on-lost runs after CMD, \
when another process may already lead: it must not use the resources of the leader. TENURE_LOSS is \
resigned, not_resigned or the reason of the loss: lease_ended, suspended, sealed, superseded, … \
The output of hooks goes to stderr. A failure of a hook is logged and has no other effect.

The file of --epoch-file is renamed into place without a sync. Choose a directory that a restart \
of the machine empties, such as /run. The file is removed before the lease ends: when CMD gets \
SIGTERM for its lease, when `tenure` or its guard dies, and when CMD ends. It remains if `tenure`, \
the guard and its standby are killed, until the next `tenure run` with this path. CMD does not \
start if the file cannot be written. The file shows who leads, but it is no fence.

`tenure` forwards SIGINT, SIGTERM, SIGHUP and SIGQUIT to the process group of CMD. While `tenure` \
waits for its election, these signals end it immediately. CMD does not run in the foreground of a \
terminal: the system stops it when it reads from one.

The guard cannot end a process that another program starts for CMD (systemd-run, docker run, \
cron), a process that changes its user, the descendants of a guard that is killed together with \
its standby, the processes of a machine that is paused, and, on systems other than Linux, a \
process that leaves the process group of CMD. Only the token protects against these: CMD must send \
TENURE_EPOCH with each write, and the written resource must refuse lower tokens.

With --health-addr, /livez is 200 while `tenure` itself works, whatever the state of the store. \
/readyz is 200 while the store has answered recently. /leader, with a JSON body, is 200 while this \
candidate leads and CMD runs. A reply describes only its moment: later writes still need the \
token.",
    "
   N  exit code of CMD, if the lease was valid at the end of CMD; 128+N if
      signal N ended CMD, 126 if CMD cannot be executed, 127 if CMD was not
      found, both before the campaign
   0  with --forever: CMD ended with 0, or after a signal to `tenure`
   1  with --forever: CMD ended with another code, which the log shows
  64  wrong usage or settings
  69  bucket or directory missing for 10s; `tenure` waits for a store that
      cannot be reached
  70  store unsafe, or an object in it corrupt, too new or deleted
  71  the operating system refused to start a process, or the guard has died
  73  with --once-per: a clock is wrong, and CMD was not run
  75  lost or gave up the lease: CMD was stopped, or ended after the lease
  76  with --try or --wait: another candidate leads, and CMD was not run; see
      --busy-exit-code
  77  access denied by the store for 10s, or for 60s by the machine's metadata
      service
 129  ended by SIGHUP while waiting, 130 by SIGINT, 131 by SIGQUIT, 143 by
      SIGTERM"
);
