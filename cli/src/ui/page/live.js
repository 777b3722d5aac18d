// The events of the server, and the regular updates.
let sayings = [],
  built = 0;
function say(text) {
  sayings.push(text);
}

function show(id, card) {
  const kind = kinds[card.kind];
  let entry = cards.get(id);
  if (!entry) {
    entry = { view: { number: `p${built++}` }, card: null, kind };
    kind.build(entry.view, card);
    const place = $(kind.section).querySelector(".cards");
    entry.key = `${card.name || card.store}`;
    const after = [...place.children].find((node) => node.dataset.key > entry.key);
    entry.view.article.dataset.key = entry.key;
    place.insertBefore(entry.view.article, after || null);
    cards.set(id, entry);
  }
  const old = entry.card;
  entry.card = card;
  kind.update(entry.view, card, old);
  kind.tick(entry.view, card);
}

function drop(id) {
  const entry = cards.get(id);
  if (!entry) return;
  say(`${entry.key} was deleted`);
  entry.view.article.remove();
  cards.delete(id);
}

function refresh() {
  const text = $("find").value.toLowerCase(),
    only = $("only").checked,
    sums = {};
  for (const { view, card, kind } of cards.values()) {
    const names = (card.members || []).map((member) => member.name);
    const words = [card.name || card.store, card.leader || "", ...names].join(" ");
    view.article.hidden = (text && !words.toLowerCase().includes(text)) || (only && !view.problem);
    const sum = (sums[kind.section] ||= { all: 0, bad: 0, shown: 0 });
    sum.all++;
    if (view.problem) sum.bad++;
    if (!view.article.hidden) sum.shown++;
  }
  const parts = [];
  for (const section of ["stores", "elections", "groups", "jobs"]) {
    const sum = sums[section];
    $(section).hidden = !sum || !sum.shown || (section === "stores" && !sum.bad);
    if (sum && section !== "stores")
      parts.push(
        `${sum.all} ${sum.all === 1 ? section.slice(0, -1) : section}${sum.bad ? `, ${sum.bad} with problems` : ""}`,
      );
  }
  put($("sums"), parts.join("; "));
  const none = ![...cards.values()].some((entry) => entry.card.kind !== "store");
  $("empty").hidden = !none;
  if (cards.size && none)
    put($("empty"), "There is no election, group or job below these prefixes yet.");
}

function beat() {
  const silent = performance.now() - heard,
    stale = silent > 6000 || refusal !== "";
  document.body.classList.toggle("stale", stale);
  $("stale").hidden = !stale;
  const why = refusal || `This view is ${length(silent)} old: tenure ui does not answer.`;
  if (stale) put($("stale"), why);
  put($("live"), refusal ? "✕ refused" : stale ? "✕ stale" : cards.size ? "● live" : "Connecting");
  if (silent > 10000 && performance.now() - opened > 10000) listen();
  for (const { view, card, kind } of cards.values())
    if (!view.article.hidden) kind.tick(view, card);
  refresh();
  if (sayings.length) {
    put($("said"), sayings.length > 3 ? `${sayings.length} changes` : sayings.join(". "));
    sayings = [];
  }
}

// The page opens its stream again, because a browser does not retry after a reply that is not a
// stream, and does not notice a dead connection. A hidden page closes its stream, because a browser
// opens at most six connections to a host.
let source = null,
  opened = 0,
  refusal = "";
function listen() {
  if (source) source.close();
  source = null;
  opened = performance.now();
  if (document.hidden) return;
  source = new EventSource("/events");
  source.addEventListener("tick", (event) => {
    const tick = JSON.parse(event.data);
    heard = performance.now();
    refusal = "";
    base = tick.now - heard;
    wallBase = tick.wall - heard;
    late = tick.late;
    const cost =
      tick.dollars_a_month === null ? "" : `, about $${tick.dollars_a_month.toFixed(2)} a month`;
    const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
    put(
      $("cost"),
      `Times are in ${zone}. This page: ${tick.requests} requests, ${Math.round(tick.per_minute)} a minute${cost}`,
    );
  });
  source.addEventListener("full", (event) => (refusal = JSON.parse(event.data)));
  // The server sends the keys of all cards after a removal and at the start of a connection. The
  // page then removes all other cards: the server may also have restarted before the connection.
  source.addEventListener("ids", (event) => {
    const ids = new Set(JSON.parse(event.data));
    for (const id of [...cards.keys()]) if (!ids.has(id)) drop(id);
  });
  source.addEventListener("card", (event) => {
    const { id, card } = JSON.parse(event.data);
    heard = performance.now();
    show(id, card);
  });
}

listen();
document.addEventListener("visibilitychange", listen);
$("find").addEventListener("input", refresh);
$("only").addEventListener("change", refresh);
setInterval(beat, 500);
