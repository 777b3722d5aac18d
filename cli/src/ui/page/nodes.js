"use strict";
// Times of cards are milliseconds of the server's clock, which never steps. `base` is the time of
// this clock at the time 0 of performance.now().
let base = 0,
  wallBase = 0,
  heard = performance.now(),
  late = 30000;
const cards = new Map();
// For each kind of card: the functions that build and update a card.
const kinds = {};
const $ = (id) => document.getElementById(id);
const now = () => base + performance.now();
const wall = () => wallBase + performance.now();

function make(tag, classes, text) {
  const node = document.createElement(tag);
  if (classes) node.className = classes;
  if (text !== undefined) node.textContent = text;
  return node;
}

// Returns a text that is never broken into two lines.
function whole(text, level = "") {
  return make("span", `whole ${level}`, text);
}

function put(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

function length(ms) {
  const s = Math.max(0, Math.round(ms / 1000));
  if (s < 100) return `${s || "<\u00a01"}\u00a0s`;
  if (s < 6000) return `${Math.floor(s / 60)}\u00a0min ${s % 60}\u00a0s`;
  const m = Math.floor(s / 60);
  const h = Math.floor(m / 60);
  if (m < 1440 || (m < 2880 && m % 1440)) return m % 60 ? `${h} h ${m % 60} min` : `${h} h`;
  return h % 24 ? `${Math.floor(h / 24)} d ${h % 24} h` : `${h / 24} d`;
}

const counted = (n, noun) => `${n} ${noun}${n === 1 ? "" : "s"}`;
const two = (n) => String(n).padStart(2, "0");
function date(ms) {
  const at = new Date(ms);
  const day = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
  return `${day} ${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
}

// Returns the letters of a member. The letters identify an owner for readers who cannot distinguish
// the colours.
function letters(index) {
  let text = "";
  for (let n = index + 1; n > 0; n = Math.floor((n - 1) / 26))
    text = String.fromCharCode(65 + ((n - 1) % 26)) + text;
  return text;
}

function colourOf(name) {
  let sum = 0;
  for (const character of name || "") sum = (sum * 31 + character.codePointAt(0)) % 997;
  return `c${sum % 12}`;
}

function frame(view, card) {
  const article = make("article");
  const top = make("div", "top");
  const name = card.name || card.store,
    end = card.name ? name.lastIndexOf("/") + 1 : 0;
  view.title = make("h3");
  view.title.append(make("span", "folder", name.slice(0, end)), name.slice(end));
  view.badge = make("span", "badge");
  top.append(view.title, view.badge);
  view.error = make("p", "error");
  view.error.hidden = true;
  article.append(top, view.error);
  view.article = article;
  return article;
}

function judge(view, level, badge) {
  view.article.className = level;
  put(view.badge, badge);
  view.problem = level !== "good" && level !== "idle";
}

function showError(view, error) {
  view.error.hidden = !error;
  put(view.error, error ? `Error: ${error}` : "");
}

function field(list, name) {
  const value = make("dd");
  value.label = make("dt", "", name);
  list.append(value.label, value);
  return value;
}

function tableOf(headings) {
  const table = make("table"),
    row = make("tr"),
    body = make("tbody"),
    head = make("thead");
  for (const heading of headings) {
    const cell = make("th", "", heading);
    cell.scope = "col";
    row.append(cell);
  }
  head.append(row);
  table.append(head, body);
  const scroll = make("div", "scroll");
  scroll.append(table);
  return { scroll, body };
}

function rowOf(values) {
  const row = make("tr");
  for (const value of values) {
    const cell = make("td");
    cell.append(value);
    row.append(cell);
  }
  return row;
}

function age(node, at, limit, before = "") {
  if (at === null) return put(node, "–");
  const ms = now() - at;
  put(node, `${before}${length(ms)} ago`);
  node.classList.toggle("late", ms > limit);
}
