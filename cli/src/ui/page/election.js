// The card of an election.
kinds.election = {
  section: "elections",
  build(view, card) {
    const article = frame(view, card),
      list = make("dl");
    view.leader = field(list, "Leader");
    view.epoch = field(list, "Epoch");
    view.since = field(list, "Since");
    view.previous = field(list, "Previous leader");
    view.answer = field(list, "Store answered");
    view.meter = make("div", "meter");
    view.fill = make("div");
    view.left = make("span");
    view.meter.setAttribute("role", "meter");
    view.meter.setAttribute("aria-label", "Remaining lease in seconds");
    view.meter.setAttribute("aria-valuemin", "0");
    view.meter.append(view.fill, view.left);
    view.stores = make("ul");
    view.data = make("pre");
    view.dataBox = make("details");
    view.dataBox.append(make("summary", "", "Data"), view.data);
    view.strip = make("ul", "strip");
    view.history = make("details");
    view.history.append(make("summary", "", "Epochs, the oldest on the left"));
    const table = tableOf(["Epoch", "Leader", "From", "Led", "End"]);
    view.rows = table.body;
    view.history.append(table.scroll);
    article.append(list, view.meter, view.stores, view.dataBox, view.strip, view.history);
  },
  update(view, card, old) {
    showError(view, card.error);
    const levels = {
      held: ["good", "● held"],
      vacant: ["bad", "○ vacant"],
      unknown: ["warn", "? unknown"],
    };
    // The election of a job is vacant between two periods, so its card shows no warning.
    const idle =
      card.state === "vacant" &&
      [...cards.values()].some((it) => it.kind === kinds.job && it.key === card.name);
    judge(view, ...(idle ? ["idle", "○ vacant between runs"] : levels[card.state]));
    view.strip.classList.toggle("idle", idle);
    put(view.leader, card.state === "held" ? card.leader || "(no name)" : "–");
    put(view.epoch, card.epoch === null ? "none yet" : String(card.epoch));
    const since = { held: "Leads since", vacant: "Vacant since", unknown: "Since" };
    put(view.since.label, since[card.state]);
    view.stores.hidden = !card.stores.length;
    view.stores.replaceChildren(...card.stores.map((line) => make("li", "", line)));
    view.dataBox.hidden = card.data === null;
    put(view.data, card.data || "");
    view.meter.setAttribute("aria-valuemax", String(Math.round((card.validity_ms || 0) / 1000)));
    if (old && (old.state !== card.state || old.epoch !== card.epoch)) {
      say(
        card.state === "held"
          ? `${card.name}: ${card.leader} leads epoch ${card.epoch}`
          : `${card.name}: ${card.state}`,
      );
    }
    if (!old || JSON.stringify(old.epochs) !== JSON.stringify(card.epochs))
      drawEpochs(view, card.epochs);
  },
  tick(view, card) {
    const left = card.state === "held" && card.lapses_at !== null ? card.lapses_at - now() : null;
    view.meter.hidden = left === null;
    if (left !== null) {
      const share = Math.max(0, Math.min(1, left / (card.validity_ms || left)));
      view.fill.style.width = `${(100 * share).toFixed(1)}%`;
      view.meter.setAttribute("aria-valuenow", String(Math.max(0, Math.round(left / 1000))));
      put(view.left, left > 0 ? `${length(left)} of the lease left` : "the lease has lapsed");
    }
    age(view.answer, card.answered_at, late);
    showTurn(view, card);
    if (now() - view.drawn > 10000) drawEpochs(view, card.epochs);
  },
};

// Shows since when the present state holds, and why the last leader ended.
function showTurn(view, card) {
  const ended = card.epochs.filter((epoch) => epoch.epoch !== card.epoch || epoch.until !== null);
  const last = ended[ended.length - 1];
  const leading = card.epochs.find((epoch) => epoch.epoch === card.epoch && epoch.until === null);
  const since =
    card.state === "held" && leading
      ? leading.from
      : card.state === "vacant" && last
        ? last.until
        : null;
  put(view.since, since === null ? "–" : `${date(since)} (${length(wall() - since)})`);
  const at = last && last.until !== null ? ` at ${date(last.until)}` : "";
  put(view.previous, last ? `${last.leader || "(no name)"}: ${endOf(last)}${at}` : "–");
}

function endOf(epoch) {
  return (
    epoch.end +
    (epoch.by && epoch.by !== epoch.leader ? ` by ${epoch.by}` : "") +
    (epoch.reason ? `: ${epoch.reason}` : "")
  );
}

// The strip has a segment for each epoch and each gap. The width of a segment shows the duration.
function drawEpochs(view, epochs) {
  view.drawn = now();
  view.strip.replaceChildren();
  view.rows.replaceChildren();
  view.strip.hidden = view.history.hidden = !epochs.length;
  let before = null;
  for (const epoch of epochs) {
    const until = epoch.until === null ? wall() : epoch.until;
    const led = epoch.from === null ? null : Math.max(0, until - epoch.from);
    // If epochs are missing between two epochs, the time between the two is unknown, so no gap is
    // drawn.
    if (before && before.epoch + 1 === epoch.epoch) drawGap(view, before.until, epoch.from);
    const how = endOf(epoch);
    const segment = make("li", colourOf(epoch.leader));
    segment.style.flexGrow = String(led || 1);
    const lasted = led === null ? "?" : length(led);
    segment.title = `epoch ${epoch.epoch}, ${epoch.leader || "no name"}, ${lasted}, ${how}`;
    segment.append(make("span", "hidden-text", segment.title));
    view.strip.append(segment);
    view.rows.prepend(
      rowOf([
        String(epoch.epoch),
        epoch.leader || "–",
        epoch.from === null ? "?" : whole(date(epoch.from)),
        led === null ? "?" : length(led),
        how,
      ]),
    );
    before = epoch;
  }
  if (before) drawGap(view, before.until, wall());
}

function drawGap(view, from, until) {
  if (from === null || until === null || until - from < 1000) return;
  const gap = make("li", "gap");
  gap.style.flexGrow = String(until - from);
  gap.title = `vacant for ${length(until - from)}`;
  gap.append(make("span", "hidden-text", gap.title));
  view.strip.append(gap);
  view.rows.prepend(rowOf(["", "vacant", whole(date(from)), length(until - from), ""]));
}
