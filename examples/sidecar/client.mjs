// Works while the sidecar at the given address leads:
// node client.mjs http://127.0.0.1:4040/v1/elections/orders
import { setTimeout as sleep } from "node:timers/promises";

const election = process.argv[2];

// Returns the fencing token and the end of the lease, or null while another candidate leads.
// `performance.now()` stops during a suspend. After a suspend, only the token protects the data.
async function lease() {
  const sent = performance.now();
  try {
    const reply = await fetch(`${election}/token`, { signal: AbortSignal.timeout(2000) });
    if (!reply.ok) return null;
    const body = await reply.json();
    return { token: body.token, end: sent + body.lease_remaining_ms };
  } catch {
    return null; // No answer within the timeout.
  }
}

// Does one short piece of work. Each write carries the token. The target refuses lower tokens.
async function work(token) {
  console.log(`write with token ${token}`);
}

for (;;) {
  const held = await lease();
  if (held && performance.now() < held.end) await work(held.token);
  await sleep(500);
}
