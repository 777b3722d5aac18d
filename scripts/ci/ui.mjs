// Tests the page of `tenure ui` in headless Chromium: node ui.mjs TENURE FOLDER [SCREENSHOT]
import { spawn, spawnSync } from "node:child_process";
import { createServer, connect } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { chromium } from "playwright-core";

const [, , tenure, folder, screenshot] = process.argv;
const started = [];
process.on("exit", () => started.forEach((child) => child.kill("SIGKILL")));

function start(...line) {
  const child = spawn(tenure, line, { stdio: ["ignore", "ignore", "pipe"], env: process.env });
  child.log = "";
  child.stderr.on("data", (part) => (child.log += part));
  started.push(child);
  return child;
}

function check(condition, claim) {
  if (!condition) throw new Error(`failed: ${claim}`);
  console.log(`passed: ${claim}`);
}

async function until(claim, holds, seconds = 60) {
  for (let left = seconds * 10; left > 0; left--) {
    if (await holds()) return console.log(`passed: ${claim}`);
    await sleep(100);
  }
  throw new Error(`not within ${seconds} s: ${claim}`);
}

async function serveUi(...line) {
  const ui = start("ui", "--listen", "127.0.0.1:0", "--poll", "1s", ...line);
  await until("the page is served", () => ui.log.includes("serving the page at "));
  return /serving the page at (http:\S+)/.exec(ui.log)[1];
}

const store = `file://${folder}/store`;
const candidate = (election, name) =>
  start(
    "run",
    "--store",
    `${store}/${election}`,
    "--name",
    name,
    "--validity",
    "5s",
    "--poll",
    "1s",
    "--data",
    '{"address": "10.0.0.7:80"}',
    "--",
    "sleep",
    "3600",
  );
const member = (name) =>
  start(
    "serve",
    "--group",
    `shards=${store}/shards`,
    "--partitions",
    "0..1000",
    "--name",
    name,
    "--validity",
    "5s",
    "--poll",
    "500ms",
    "--rebalance-delay",
    "0s",
    "--listen",
    "127.0.0.1:0",
  );

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM || "/usr/bin/chromium",
  args: [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
  ],
});
const page = await browser.newPage({ viewport: { width: 1280, height: 800 } });
const complaints = [];
page.on("console", (message) => complaints.push(message.text()));
page.on("pageerror", (error) => complaints.push(error.message));
page.on("dialog", (dialog) => complaints.push(`dialog: ${dialog.message()}`));
const hosts = new Set();
page.on("request", (request) => hosts.add(new URL(request.url()).host));
const card = (name) =>
  page.locator("article", { has: page.locator("h3", { hasText: new RegExp(`/${name}$`) }) });
const shows = async (name, text) =>
  (
    await card(name)
      .first()
      .innerText()
      .catch(() => "")
  ).includes(text);

// The name of one candidate contains markup and a bidi control.
const hostile = "<img src=x onerror=alert(1)>\u202e" + "x".repeat(60);
const first = candidate("orders", "orders-1");
start(
  "run",
  "--store",
  `${store}/hostile`,
  "--name",
  hostile,
  "--data",
  JSON.stringify("<script>".repeat(5000)),
  "--validity",
  "30s",
  "--",
  "sleep",
  "3600",
);
const members = [member("worker-1"), member("worker-2")];
spawnSync(tenure, [
  "run",
  "--store",
  `${store}/report`,
  "--once-per",
  "1d",
  "--name",
  "host-1",
  "--",
  "true",
]);
await page.goto(await serveUi("--store", store));
await until("a leader is shown", () => shows("orders", "orders-1"));
await until("all partitions are owned", () => shows("shards", "all owned"));
await until("the job is shown", async () =>
  (await page.locator("#jobs").innerText()).includes("completed"),
);
await until("the hostile name is text", () =>
  shows("hostile", "<img src=x onerror=alert(1)>\\u{202e}"),
);
const job = (text) => async () => (await page.locator("#jobs").innerText()).includes(text);
const lost = start("run", "--store", `${store}/lost`, "--once-per", "1d", "--", "sleep", "3600");
await until("a job runs", job("… running"), 90);
lost.kill("SIGKILL");
await until("a job without a result is unfinished", job("✕ unfinished"), 90);
check((await page.locator("main img").count()) === 0, "no element comes from a name");
const size = await card("shards").locator(".grid").boundingBox();
check(size.height < 700 && size.width < 1280, "1,000 partitions fit on a screen");
check((await page.locator(".grid span").count()) === 1000, "the grid has all partitions");

// The application of one member: it releases revoked partitions until the member has ended.
async function release(process) {
  await until("a member serves", () => process.log.includes("serving elections at "));
  const group = `${/serving elections at (http:\S+)/.exec(process.log)[1]}/v1/groups/shards`;
  while (process.exitCode === null && process.signalCode === null) {
    const { partitions = [] } = await fetch(group).then(
      (reply) => reply.json(),
      () => ({}),
    );
    for (const { partition, token, revoked } of partitions) {
      if (revoked)
        await fetch(`${group}/partitions/${partition}/release?token=${token}`, { method: "POST" });
    }
    await sleep(200);
  }
}

// When the third member joins, a third of the partitions move to it.
members.push(member("worker-3"));
const applications = members.map((process) => release(process).catch(() => {}));
await until("the new member owns partitions", async () =>
  /worker-3\s[^]*?\s33[34]\s/.test(await card("shards").innerText()),
);
check(
  (await page.locator(".grid span").count()) === 1000,
  "the grid has all partitions after the moves",
);
check(
  /worker-\d → worker-3/.test(await card("shards").locator("details pre").textContent()),
  "moves are listed",
);
if (screenshot) await page.screenshot({ path: screenshot });

// The grid can be used with the keyboard and a screen reader.
await card("shards").locator(".grid").focus();
for (const key of ["ArrowRight", "ArrowRight", "ArrowDown", "End"]) await page.keyboard.press(key);
check(await shows("shards", "Partition 999; owner worker-"), "the arrow keys choose a partition");
check(
  (await page.getByRole("option", { name: /^Partition 0; owner worker-\d, live$/ }).count()) === 1,
  "a partition has a name for screen readers",
);
check((await page.getByRole("meter").count()) >= 1, "the lease is a meter for screen readers");
await page.fill("#find", "orders");
await until(
  "the filter hides other cards",
  async () => (await page.locator("article:visible").count()) === 1,
  5,
);
await page.fill("#find", "");

// The page names a paused partition and its mark once the owner has released the partition.
const mark = (verb) => spawnSync(tenure, ["group", verb, "--store", `${store}/shards`, "7"]);
check(mark("pause").status === 0, "a partition is paused");
await until("the paused partition is named", () =>
  shows("shards", "Without a live owner: partition 7 (paused)"),
);
check(mark("resume").status === 0, "the partition is resumed");
await until("the partition has an owner again", () => shows("shards", "all owned"));

// The page shows a successor after the leader was killed.
candidate("orders", "orders-2");
first.kill("SIGKILL");
await until("the successor is shown", () => shows("orders", "orders-2"));
check(
  (await card("orders").first().locator(".strip li").count()) >= 2,
  "both epochs are in the timeline",
);
await until("the end of the last leader is shown", () => shows("orders", "orders-1: "));

// All members are killed.
members.forEach((process) => process.kill("SIGKILL"));
await Promise.all(applications);
await until(
  "dead members are red",
  async () => (await card("shards").locator("tr.dead").count()) === 3,
);
await until(
  "their partitions are red",
  async () => (await page.locator(".grid .dead").count()) === 1000,
);

await until("partitions without a live owner are named", () =>
  shows("shards", "Without a live owner: partition 0, 1, 2, 3, 4, 5, 6, 7, 8"),
);

// In both colour schemes and at extreme widths, the page has no horizontal scroll bar.
for (const [width, colorScheme] of [
  [360, "dark"],
  [3840, "light"],
]) {
  await page.setViewportSize({ width, height: 800 });
  await page.emulateMedia({ colorScheme });
  const wide = await page.evaluate(
    () => document.documentElement.scrollWidth - document.documentElement.clientWidth,
  );
  check(wide <= 0, `nothing overflows at ${width} px`);
}

// The server of the page is stopped, and continues later.
const ui = started.find((child) => child.spawnargs.includes("ui"));
ui.kill("SIGSTOP");
await until(
  "a stale page says so",
  async () => (await page.locator("#stale:visible").count()) === 1,
);
ui.kill("SIGCONT");
await until("the page is live again", async () =>
  (await page.locator("#live").innerText()).includes("live"),
);
// The console may contain this error, because the server has closed the connection and the browser
// has opened a new one.
complaints.splice(
  0,
  complaints.length,
  ...complaints.filter((it) => !it.includes("ERR_INCOMPLETE_CHUNKED_ENCODING")),
);

// A proxy in front of the server answers 502 for a while. After a 502, a browser does not retry a
// stream, so the page must open it again.
let refused = 0;
await page.route("**/events", (route) => route.fulfill({ status: 502 }).then(() => refused++));
await page.reload();
await until("the page gets a 502", () => refused > 0);
await page.unroute("**/events");
await until("the page recovers from a 502", () => shows("orders", "orders-2"));
complaints.splice(0, complaints.length, ...complaints.filter((it) => !it.includes("502")));

// With the stream of this page, 64 streams are open. A second page must wait.
const { port, hostname } = new URL(page.url());
const streams = Array.from({ length: 63 }, () => connect(port, hostname));
streams.forEach((stream) => stream.write("GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n"));
await Promise.all(streams.map((stream) => new Promise((read) => stream.once("data", read))));
const second = await browser.newPage();
await second.goto(page.url());
await until("a page over the limit is refused", async () =>
  (await second.locator("#stale").innerText()).includes("64 pages are open already"),
);
check((await page.locator("#live").innerText()).includes("live"), "the other page is live");
streams.forEach((stream) => stream.destroy());
await until("the refused page recovers", async () =>
  (await second.locator("#live").innerText()).includes("live"),
);
await second.close();

// The store hangs: the test runs a proxy in front of the store, and the proxy stops forwarding.
if (process.env.AWS_ENDPOINT_URL) {
  const target = new URL(process.env.AWS_ENDPOINT_URL);
  let hangs = false;
  const proxy = createServer((socket) => {
    const other = connect(Number(target.port), target.hostname);
    const forward = (from, to) =>
      from
        .on("data", (part) => hangs || to.write(part))
        .on("error", () => {})
        .on("end", () => to.end());
    forward(socket, other);
    forward(other, socket);
  });
  await new Promise((ready) => proxy.listen(0, "127.0.0.1", ready));
  const bucket = `s3://${process.env.TENURE_TEST_S3_BUCKET}/ui-${process.pid}`;
  start("run", "--store", `${bucket}/mail`, "--name", "mail-1", "--", "sleep", "3600");
  start(
    "serve",
    "--group",
    `queue=${bucket}/queue`,
    "--partitions",
    "0..8",
    "--name",
    "worker-1",
    "--poll",
    "1s",
    "--validity",
    "6s",
    "--rebalance-delay",
    "0s",
    "--listen",
    "127.0.0.1:0",
  );
  process.env.AWS_ENDPOINT_URL = `http://127.0.0.1:${proxy.address().port}`;
  await page.goto(await serveUi("--store", bucket));
  await until("an election on S3 is shown", () => shows("mail", "mail-1"));
  await until("a group on S3 is shown", () => shows("queue", "all owned"));
  await until("the cost is shown", async () =>
    /\$\d/.test(await page.locator("#cost").innerText()),
  );
  hangs = true;
  await until("a store that hangs is unknown", () => shows("mail", "unknown"), 90);
  await until("and so are the owners", () => shows("queue", "unknown"), 90);
  hangs = false;
  await until("an answer ends that", () => shows("mail", "held"), 90);
  proxy.close();
}

check(complaints.length === 0, `no error in the console ${complaints.join("; ")}`);
check(
  [...hosts].every((host) => host.startsWith("127.0.0.1:")),
  "no other host was asked",
);
await browser.close();
process.exit(0);
