// The card of a job.
kinds.job = {
  section: "jobs",
  build(view, card) {
    const article = frame(view, card);
    view.summary = make("p");
    const table = tableOf(["Period", "Result", "Host", "Started", "Took"]);
    view.rows = table.body;
    article.append(view.summary, table.scroll);
  },
  update(view, card) {
    showError(view, card.error);
    drawJob(view, card);
  },
  tick(view, card) {
    judgeJob(view, card);
  },
};

function resultOf(period, last) {
  if (period.exit_code === 0) return ["✓ completed", "ok"];
  if (period.exit_code !== null) return [`✕ exit code ${period.exit_code}`, "error"];
  return last ? ["… running, or its host is lost", "late"] : ["✕ no result", "error"];
}

function drawJob(view, card) {
  const rows = [];
  card.periods.forEach((period, index) => {
    const last = index === card.periods.length - 1;
    const missed = whole(`✕ ${period.missed} missed`, "error");
    if (period.missed > 0) rows.unshift(rowOf(["", missed, "", "", ""]));
    const [text, level] = resultOf(period, last);
    const took = period.ended === null ? "–" : length(period.ended - period.started);
    rows.unshift(
      rowOf([
        whole(date(period.start)),
        whole(period.attempts > 1 ? `${text}, attempt ${period.attempts}` : text, level),
        period.host,
        whole(date(period.started)),
        whole(took),
      ]),
    );
  });
  view.rows.replaceChildren(...rows);
  judgeJob(view, card);
}

// Returns whether a host may run the job now: the election of the job is held, or was held
// recently. The election counts as recently held for two intervals between reads of the record,
// because the record on the page may lack the result of the run.
function mayRun(view, card) {
  const held = (it) =>
    it.kind === kinds.election && it.key === card.name && it.card.state !== "vacant";
  if (view.heldAt === undefined || [...cards.values()].some(held))
    view.heldAt = performance.now();
  return performance.now() - view.heldAt < 2 * card.read_every_ms;
}

function judgeJob(view, card) {
  const last = card.periods[card.periods.length - 1];
  if (!last)
    return judge(view, card.error ? "bad" : "warn", card.error ? "✕ unreadable" : "○ never run");
  const late = Math.floor((wall() - last.start) / card.period_ms) - 1;
  const overdue = wall() - last.start - card.period_ms;
  put(
    view.summary,
    `One run per ${length(card.period_ms)}. ` +
      (overdue > 0
        ? `The next period began ${length(overdue)} ago and no host has started it.`
        : `The next period begins in ${length(-overdue)}.`),
  );
  const state = stateOfJob(last, late, mayRun(view, card));
  judge(view, ...(card.error ? ["bad", "✕ unreadable"] : state));
}

function stateOfJob(last, late, runs) {
  if (last.exit_code !== null && last.exit_code !== 0)
    return ["bad", `✕ exit code ${last.exit_code}`];
  if (late > 0) return ["bad", `✕ ${late} missed`];
  if (last.exit_code === 0) return ["good", "✓ completed"];
  return runs ? ["warn", "… running"] : ["bad", "✕ unfinished"];
}
