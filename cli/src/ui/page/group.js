// The card of a group.
kinds.group = {
  section: "groups",
  build(view, card) {
    const article = frame(view, card);
    view.summary = make("p");
    view.lost = make("p", "error");
    view.marked = make("p");
    const table = tableOf([
      "",
      "Member",
      "Session",
      "Renewed",
      "Partitions",
      "Weight",
      "Role",
      "Data",
    ]);
    view.rows = table.body;
    view.grid = make("div", "grid");
    view.grid.tabIndex = 0;
    view.grid.setAttribute("role", "listbox");
    view.grid.setAttribute("aria-label", "Partitions. Arrow keys choose one.");
    view.detail = make("p", "faint", "Choose a partition for its details.");
    view.detail.setAttribute("aria-live", "polite");
    view.moves = make("pre", "faint");
    const moves = make("details");
    moves.append(make("summary", "", "Recent moves"), view.moves);
    view.answer = make("span", "faint");
    article.append(
      view.summary,
      view.lost,
      view.marked,
      table.scroll,
      view.grid,
      view.detail,
      moves,
      view.answer,
    );
    view.cells = [];
    view.log = [];
    view.active = -1;
    view.grid.addEventListener("keydown", (event) => walk(view, event));
    view.grid.addEventListener("click", (event) =>
      activate(view, view.cells.indexOf(event.target)),
    );
  },
  update(view, card, old) {
    showError(view, card.error);
    drawGroup(view, card, old);
    judgeGroup(view, card);
    if (old) {
      const [dead, before] = [deadIn(card), deadIn(old)];
      if (dead > before) say(`${card.name}: ${dead} dead members`);
    }
  },
  tick(view, card) {
    for (const [index, member] of card.members.entries()) {
      const row = view.rows.children[index];
      if (row) age(row.children[3], member.renewed_at, member.validity_ms);
    }
    view.answer.hidden = card.answered_at === null;
    age(view.answer, card.answered_at, late, "Store answered ");
    judgeGroup(view, card);
  },
};

const MOST_NAMED = 20;
const hasLiveOwner = (card, index) =>
  card.owners[index] >= 0 && card.members[card.owners[index]].alive;
const deadIn = (card) => card.members.filter((member) => !member.alive).length;

function judgeGroup(view, card) {
  const dead = deadIn(card);
  const named = (name, index) =>
    view.marks.has(index) ? `${name} (${view.marks.get(index)})` : String(name);
  const without = card.partitions.map(named).filter((_, index) => !hasLiveOwner(card, index));
  const lost = without.length;
  const level = card.error || dead || card.restoring ? "bad" : lost ? "warn" : "good";
  const word =
    card.epoch === null
      ? "○ no group yet"
      : lost === 0
        ? "● all owned"
        : `✕ ${lost} without a live owner`;
  // If the last answer of the store is old, the owners may have changed since.
  if (card.answered_at !== null && now() - card.answered_at > late)
    judge(view, "warn", "? unknown");
  else judge(view, level, card.restoring ? "✕ unfinished restore" : word);
  view.lost.hidden = !lost;
  const more = lost > MOST_NAMED ? ` and ${lost - MOST_NAMED} more` : "";
  put(
    view.lost,
    `Without a live owner: partition ${without.slice(0, MOST_NAMED).join(", ")}${more}`,
  );
  put(
    view.summary,
    `${counted(card.partitions.length, "partition")}, ${counted(card.members.length, "member")}` +
      (dead ? `, ${dead} of them dead` : "") +
      (card.epoch === null ? "" : `, assignment ${card.epoch}`),
  );
}

// A member keeps its letters and its colour until it has left.
function place(view, card) {
  const before = view.slots || new Map(),
    taken = new Set();
  view.slots = new Map();
  for (const { session } of card.members) {
    if (before.has(session)) taken.add(before.get(session));
  }
  for (const { session } of card.members) {
    let slot = before.get(session);
    if (slot === undefined) for (slot = 0; taken.has(slot); slot++);
    taken.add(slot);
    view.slots.set(session, slot);
  }
  return card.members.map((member) => view.slots.get(member.session));
}

function drawGroup(view, card, old) {
  const slots = place(view, card);
  const owned = card.members.map(() => 0);
  for (const owner of card.owners) if (owner >= 0) owned[owner]++;
  view.rows.replaceChildren(
    ...card.members.map((member, index) => {
      const key = make("span", `key c${slots[index] % 12}`, letters(slots[index]));
      const state = `${member.alive ? "●" : "✕"} ${member.state} (${member.session})`;
      const row = rowOf([
        key,
        member.name,
        state,
        "",
        String(owned[index]),
        String(member.weight),
        member.role || "–",
        member.data || "–",
      ]);
      if (!member.alive) row.className = "dead";
      return row;
    }),
  );
  while (view.cells.length > card.partitions.length) view.cells.pop().remove();
  while (view.cells.length < card.partitions.length) {
    const cell = make("span");
    cell.setAttribute("role", "option");
    cell.id = `${view.number}-${view.cells.length}`;
    view.cells.push(cell);
    view.grid.append(cell);
  }
  const marks = new Map(card.marks);
  view.marks = marks;
  const marked = card.marks.map(([index, mark]) => `${card.partitions[index]} ${mark}`);
  const rest = marked.length > MOST_NAMED ? ` and ${marked.length - MOST_NAMED} more` : "";
  view.marked.hidden = !marked.length;
  put(view.marked, `Marked: partition ${marked.slice(0, MOST_NAMED).join(", ")}${rest}`);
  const named = (group, index) => (index < 0 ? "no owner" : group.members[index].name);
  const before = new Map();
  if (old)
    old.partitions.forEach((name, index) =>
      before.set(name, [named(old, old.owners[index]), old.owners[index]]),
    );
  let moved = 0;
  card.partitions.forEach((name, index) => {
    const cell = view.cells[index],
      owner = card.owners[index];
    const alive = owner >= 0 && card.members[owner].alive;
    const classes = [owner < 0 ? "none" : alive ? `c${slots[owner] % 12}` : "dead"];
    if (card.targets[index] >= 0) classes.push("moving");
    if (marks.has(index)) classes.push("marked");
    if (view.active === index) classes.push("active");
    const was = before.get(name),
      is = named(card, owner);
    if (was && was[0] !== is) {
      moved++;
      classes.push("moved");
      view.log.unshift(`${date(wall())}  ${name}: ${was[0]} → ${is}`);
    } else if (cell.classList.contains("moved") && cell.dataset.until > performance.now()) {
      classes.push("moved");
    }
    if (was && was[0] !== is) cell.dataset.until = String(performance.now() + 2500);
    const text = classes.join(" ");
    if (cell.className !== text) cell.className = text;
    put(cell, owner < 0 ? "–" : alive ? letters(slots[owner]) : `!${letters(slots[owner])}`);
    const label = describe(view, card, index);
    if (cell.getAttribute("aria-label") !== label) {
      cell.setAttribute("aria-label", label);
      cell.title = label;
    }
  });
  view.log.length = Math.min(view.log.length, 50);
  put(view.moves, view.log.join("\n") || "none since this page was opened");
  if (moved) say(`${card.name}: ${moved} partitions moved`);
  if (view.active >= 0) put(view.detail, describe(view, card, view.active));
}

function describe(view, card, index) {
  if (index >= card.partitions.length) return "";
  const owner = card.owners[index],
    target = card.targets[index],
    token = card.tokens && card.tokens[index];
  const parts = [`Partition ${card.partitions[index]}`];
  parts.push(
    owner < 0 ? "no owner" : `owner ${card.members[owner].name}, ${card.members[owner].state}`,
  );
  if (target >= 0) parts.push(`moves to ${card.members[target].name}`);
  if (view.marks.has(index)) parts.push(view.marks.get(index));
  if (token) parts.push(`token ${token}`);
  return parts.join("; ");
}

function activate(view, index) {
  if (index < 0 || index >= view.cells.length) return;
  if (view.cells[view.active]) view.cells[view.active].classList.remove("active");
  view.active = index;
  const cell = view.cells[index];
  cell.classList.add("active");
  view.grid.setAttribute("aria-activedescendant", cell.id);
  cell.scrollIntoView({ block: "nearest" });
  put(view.detail, cell.getAttribute("aria-label"));
}

function walk(view, event) {
  const cells = view.cells,
    at = view.active;
  let columns = cells.findIndex((cell) => cell.offsetTop !== cells[0].offsetTop);
  if (columns < 1) columns = cells.length;
  const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns };
  let next = at;
  if (event.key in steps) next = at < 0 ? 0 : at + steps[event.key];
  else if (event.key === "Home") next = 0;
  else if (event.key === "End") next = cells.length - 1;
  else return;
  event.preventDefault();
  activate(view, Math.max(0, Math.min(cells.length - 1, next)));
}
