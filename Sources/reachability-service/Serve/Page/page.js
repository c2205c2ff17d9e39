// The live page: /status for the state and its evidence, /history for the timeline, /events for what changes.
// Text of others, such as interface names, is only ever set as text, and shown() makes its invisible characters visible.

import { capitalized, clock, day, duration, element, hour, reasonText, setText, shown, spaced, timeElement } from "/text.js";
import { drawTimeline, fillOutages, makeOutages, summary } from "/timeline.js";

const words = {
  satisfied: ["●", "Online"],
  unsatisfied: ["○", "Offline"],
  unknown: ["◌", "Unknown"],
};
const links = {
  interface: "Interface", carrier: "Carrier", address: "Address", name: "Name", route: "Route", nextHop: "Next hop",
};
const signs = { holds: ["✓", "holds"], broken: ["✕", "broken"], unknown: ["·", "not reached"] };
const modes = {
  starting: "The monitor is starting.",
  resyncing: "Events were lost; everything is being read again.",
  polling: "The kernel's events are not available: changes are found by looking every two seconds.",
  blind: "The monitor cannot see the network.",
};
const historyHours = 24;
const changeLimit = 60;
const heartbeatLimit = 40_000;

const cards = new Map();
const liveChanges = [];
let status = null;
let history = null;
let clockOffset = 0;

const byID = (id) => document.getElementById(id);
const now = () => Date.now() + clockOffset;

// Scopes

function makeCard(name) {
  const card = {
    root: element("section", { class: "card scope", "aria-label": shown(name) }),
    title: element("h2", {}, shown(name)),
    sign: element("span", { class: "sign", "aria-hidden": "true" }),
    word: element("span", { class: "word" }),
    since: element("span", {}),
    summary: element("p", { class: "summary" }),
    families: element("p", { class: "quiet" }),
    chain: element("ol", { class: "chain", "aria-label": `Evidence for ${shown(name)}` }),
    remedy: element("div", { class: "remedy" }),
    figure: element("figure", { class: "timeline" }),
    drawing: element("div", { class: "drawing" }),
    caption: element("figcaption", {}),
    outages: makeOutages(),
    chainText: "",
  };
  card.figure.append(card.caption, card.drawing, card.outages);
  card.root.append(
    element("div", { class: "state" }, card.title, element("p", { class: "verdict" }, card.sign, card.word), card.since),
    card.summary, card.chain, card.remedy, card.families, card.figure);
  byID("scopes").append(card.root);
  new ResizeObserver(() => draw(name)).observe(card.drawing);
  cards.set(name, card);
  return card;
}

function renderScope(scope) {
  const card = cards.get(scope.scope) ?? makeCard(scope.scope);
  const [sign, word] = words[scope.path.status] ?? words.unknown;
  card.root.dataset.status = scope.path.status;
  setText(card.sign, sign);
  setText(card.word, word);
  setText(card.summary, scope.path.status === "unsatisfied" ? capitalized(shown(scope.summary)) : shown(scope.summary));
  setText(card.families, families(scope.path));
  renderChain(card, scope);
}

function families(path) {
  const missing = (name, family) => (family.reason ? `${name}: ${reasonText(family.reason)}` : null);
  const one = (name, family) => (family.satisfied ? `${name} works` : missing(name, family));
  return [one("IPv4", path.ipv4), one("IPv6", path.ipv6)].filter((text) => text).join(" · ");
}

function renderChain(card, scope) {
  const text = JSON.stringify([scope.chain, scope.explain?.missing, scope.explain?.next]);
  if (text === card.chainText) return;
  card.chainText = text;
  card.chain.replaceChildren(
    ...scope.chain.map((step) => {
      const [sign, meaning] = signs[step.state] ?? signs.unknown;
      return element(
        "li", { "data-state": step.state },
        element("span", { class: "marker", "aria-hidden": "true" }, sign),
        element(
          "span", { class: "step" }, links[step.link] ?? shown(step.link), element("span", { class: "hidden" }, ` ${meaning}`)),
        element("bdi", { class: "detail" }, shown(step.detail)));
    }));
  card.remedy.replaceChildren();
  if (!scope.explain) {
    card.remedy.append(element("p", { class: "quiet" }, "The kernel could not be asked for the evidence."));
  } else if (scope.explain.missing) {
    card.remedy.append(
      element("p", {}, element("strong", {}, "Missing: "), element("bdi", {}, shown(scope.explain.missing))),
      element("p", {}, element("strong", {}, "Try next: "), element("code", { tabindex: "0" }, shown(scope.explain.next))));
  }
}

function draw(name) {
  const card = cards.get(name);
  const found = history?.scopes.find((scope) => scope.scope === name);
  if (!card || !found) return;
  const text = summary(found, history);
  setText(card.caption, text);
  drawTimeline(card.drawing, found, history, text);
  fillOutages(card.outages, found);
}

// The queue, notices and the service

function renderQueue(queue) {
  byID("queue").hidden = !queue;
  if (!queue) return;
  const named = [["waiting", "available"], ["running", "running"], ["failed", "failed"], ["succeeded", "succeeded"]];
  const counts = named.map(([word, key]) => [queue.counts[key] ?? 0, word]).filter(([count]) => count > 0);
  const text = queue.problem ? shown(queue.problem) : counts.map(([count, word]) => `${count} ${word}`).join(", ") || "empty";
  setText(byID("queue-counts"), text + (queue.more ? "; the first are shown" : ""));
  const known = new Map([...byID("jobs").children].map((item) => [item.dataset.id, item]));
  const items = queue.jobs.map((job) => renderJob(job, known.get(job.id)));
  // Moving an item would end the selection of a text in it.
  const isSame = items.length === known.size && items.every((item, index) => item === byID("jobs").children[index]);
  if (!isSame) byID("jobs").replaceChildren(...items);
}

// The queue commands take the first digits of an identity, and other jobs show as many.
const shortened = (text) => text.replace(/\b([0-9a-f]{12})[0-9a-f]{20}\b/g, "$1");

function failure(job) {
  const words = job.exitCode === null ? "gave up; try next: " : `gave up: exit code ${job.exitCode}; try next: `;
  return element("p", { class: "reason" }, words, element("code", {}, `reachability-watch queue log ${job.id.slice(0, 12)}`));
}

function renderJob(job, old) {
  const item = old ?? element("li", { "data-id": job.id });
  const text = JSON.stringify([job.state, job.waitingFor, job.attempts]);
  const ends = job.startsIn === null ? null : now() + job.startsIn * 1000;
  item.dataset.ends = ends === null ? "" : String(ends);
  if (item.dataset.text === text) return item;
  item.dataset.text = text;
  item.dataset.state = job.state;
  const state = job.state === "available" ? "waiting" : job.state;
  const parts = [
    element(
      "p", { class: "job" }, element("span", { class: "badge" }, state),
      element("bdi", { class: "name" }, shown(job.name ?? job.program ?? "a job")),
      element("span", { class: "quiet" }, job.name && job.program ? shown(job.program) : "", ` ${job.id.slice(0, 12)}`),
      element("span", { class: "quiet until" })),
    job.state === "failed" ? failure(job) : null,
    ...job.waitingFor.map((reason) => element("p", { class: "reason" }, element("bdi", {}, shortened(shown(reason))))),
  ];
  item.replaceChildren(...parts.filter((part) => part));
  return item;
}

// The fleet: words of the command line, the state as a sign and a word, never as a colour alone.
const states = {
  online: ["●", "online"],
  degraded: ["◐", "degraded"],
  offline: ["○", "offline"],
  disconnected: ["–", "disconnected"],
  lost: ["✕", "lost"],
  unknown: ["◌", "unknown"],
};

function renderFleet(fleet) {
  byID("fleet").hidden = !fleet;
  if (!fleet) return;
  setText(byID("site"), `of ${shown(fleet.site)}`);
  const counts = Object.keys(states).map((state) => [fleet.counts[state] ?? 0, state]).filter(([count]) => count > 0);
  const known = counts.map(([count, state]) => `${count} ${state}`).join(", ") || "none yet";
  const problem = fleet.problem ? `${capitalized(shown(fleet.problem))}.` : "";
  const unknown = fleet.unknownSince === null ? "" : `Not connected to the broker since ${clock(Date.parse(fleet.unknownSince))}. `;
  const more = fleet.more ? `; ${fleet.nodes.length} are shown` : "";
  setText(byID("fleet-problem"), unknown + problem);
  setText(byID("fleet-counts"), known + more);
  const old = new Map([...byID("nodes").children].map((item) => [item.dataset.name, item]));
  const items = fleet.nodes.map((node) => renderNode(node, old.get(node.name), fleet.node));
  const isSame = items.length === old.size && items.every((item, index) => item === byID("nodes").children[index]);
  if (!isSame) byID("nodes").replaceChildren(...items);
}

// A lost node cannot say when its end was: its last sign of life is all that is known.
const beginning = (node) => Date.parse(node.lastState === "lost" ? node.lastSeen : node.since);

function renderNode(node, old, own) {
  const item = old ?? element("li", { "data-name": node.name });
  const text = JSON.stringify(node);
  if (item.dataset.text === text) return item;
  item.dataset.text = text;
  item.dataset.state = node.state;
  item.dataset.since = String(beginning(node));
  item.dataset.after = String(node.lastState === "lost" && node.lastSeen === node.since);
  const [sign, word] = states[node.state] ?? states.unknown;
  const last = node.state === "unknown" ? `last known: ${node.lastState} since ${clock(beginning(node))}` : "";
  const which = node.name === own ? "this machine" : "";
  const reason = node.reason ? reasonText(node.reason) : "";
  const age = node.old ? "not seen for 30 days" : "";
  item.replaceChildren(
    element("span", { class: "word" }, element("span", { "aria-hidden": "true" }, `${sign} `), word),
    element("bdi", { class: "name" }, shown(node.name)),
    element("span", { class: "detail" }, [which, last, reason, age].filter((part) => part).join(", ")),
    element("span", { class: "since" }));
  return item;
}

function renderNotices() {
  const notices = [];
  const mode = status.health.mode;
  if (mode !== "live") {
    const problem = status.health.problem ? ` ${shown(status.health.problem)}` : "";
    notices.push([mode === "blind" ? "bad" : "warn", (modes[mode] ?? `The monitor is ${shown(mode)}.`) + problem]);
  }
  if (status.history.problem) notices.push(["warn", capitalized(shown(status.history.problem))]);
  const text = JSON.stringify(notices);
  const box = byID("notices");
  if (box.dataset.text === text) return;
  box.dataset.text = text;
  box.replaceChildren(...notices.map(([level, words]) => element("p", { class: "notice", "data-level": level }, words)));
}

function renderTimes() {
  if (connection.lostSince !== null) {
    const since = clock(connection.lostSince);
    setText(byID("connection"), `connection to the service lost, since ${since}`);
    for (const card of cards.values()) setText(card.since, `last known, before ${since}`);
    return;
  }
  if (!status) return;
  for (const scope of status.scopes) {
    const card = cards.get(scope.scope);
    if (!card || !scope.since) continue;
    const since = Date.parse(scope.since);
    const least = scope.sinceStart ? "at least " : "";
    setText(card.since, `for ${least}${duration(Math.max(0, now() - since))}, since ${least ? "before " : ""}${clock(since)}`);
  }
  for (const item of byID("nodes").children) {
    if (item.dataset.state === "unknown") continue;
    const since = Number(item.dataset.since);
    const long = `${duration(now() - since)}, since ${item.dataset.after === "true" ? "after " : ""}${clock(since)}`;
    setText(item.querySelector(".since"), item.dataset.after === "true" ? `after ${clock(since)}` : `for ${long}`);
  }
  for (const item of byID("jobs").children) {
    const until = item.querySelector(".until");
    const left = Number(item.dataset.ends) - now();
    const isDue = !item.dataset.ends || left <= 0;
    if (until) setText(until, isDue ? "" : `not before ${clock(Number(item.dataset.ends))}, in ${duration(left)}`);
  }
}

function render() {
  clockOffset = Date.parse(status.time) - status.receivedAt;
  setText(byID("host"), shown(status.host));
  status.scopes.forEach(renderScope);
  renderQueue(status.queue);
  renderFleet(status.fleet);
  renderNotices();
  renderTimes();
  const worst = ["unsatisfied", "unknown", "satisfied"].find((state) => status.scopes.some((scope) => scope.path.status === state));
  const [sign, word] = words[worst ?? "unknown"];
  document.title = `${sign} ${word} – ${shown(status.host)}`;
  const kept = status.history.file ? `history in ${shown(status.history.file)}` : "history in memory only";
  const started = clock(Date.parse(status.started));
  setText(byID("service"), `reachability-watch ${shown(status.version)}, running since ${started}; ${kept}`);
}

// Changes

function pastChanges() {
  const found = [];
  for (const scope of history?.scopes ?? []) {
    scope.spans.forEach((span, index) => {
      if (index === 0 || span.status === "unknown") return;
      const begins = scope.spans[index - 1].status === "unknown" ? "when the service began to watch" : "";
      const reason = span.reason ? reasonText(span.reason) + (span.cause ? ` (${span.cause})` : "") : span.cause;
      const how = span.status === "unsatisfied" ? reason : span.interface ? `via ${span.interface}` : "";
      const text = [how, begins].filter((part) => part).join(", ");
      found.push({ time: Date.parse(span.start), scope: scope.scope, status: span.status, text });
    });
  }
  return found;
}

function change(event) {
  const kinds = event.kinds.filter((kind) => kind !== "online" && kind !== "offline").map(spaced).join(", ");
  const path = event.path;
  const how = path.status === "satisfied" ? `via ${path.interface}` : path.reason ? reasonText(path.reason) : "";
  const text = [kinds, how].filter((part) => part).join(": ") + (event.cause?.detail ? ` (${event.cause.detail})` : "");
  return { time: Date.parse(event.time), scope: event.scope, status: path.status, text };
}

function changeItem(entry) {
  const [sign, word] = words[entry.status] ?? words.unknown;
  const scope = cards.size > 1 ? element("bdi", { class: "which" }, shown(entry.scope)) : null;
  return element(
    "li", { "data-status": entry.status }, timeElement(entry.time, hour),
    element("span", { class: "word" }, element("span", { "aria-hidden": "true" }, `${sign} `), word), scope,
    element("bdi", { class: "detail" }, shown(entry.text)));
}

// Those of the history have a list of their own, which is not read out.
function renderPastChanges() {
  const first = liveChanges.at(-1)?.time ?? Infinity;
  const past = pastChanges().filter((entry) => entry.time < first - 1).sort((one, other) => other.time - one.time);
  let last = day(liveChanges.at(-1)?.time ?? now());
  const items = past.slice(0, Math.max(0, changeLimit - liveChanges.length)).flatMap((entry) => {
    const own = day(entry.time);
    if (own === last) return [changeItem(entry)];
    last = own;
    return [dayItem(entry), changeItem(entry)];
  });
  byID("past").replaceChildren(...items);
  byID("no-changes").hidden = past.length + liveChanges.length > 0;
}

const dayItem = (entry) => element("li", { class: "day" }, day(entry.time));

function addChange(entry) {
  const before = liveChanges[0];
  if (before && day(before.time) !== day(entry.time)) byID("changes").prepend(dayItem(before));
  liveChanges.unshift(entry);
  liveChanges.splice(changeLimit);
  const list = byID("changes");
  list.prepend(changeItem(entry));
  while (list.children.length > changeLimit) list.lastElementChild.remove();
  byID("no-changes").hidden = true;
}

// Loading: one request of each kind at a time, and one more after it if something has changed meanwhile.

function loader(path, apply) {
  let isRunning = false;
  let isDue = false;
  return async function load() {
    isDue = true;
    if (isRunning) return;
    isRunning = true;
    while (isDue) {
      isDue = false;
      try {
        const answer = await fetch(path, { cache: "no-store" });
        if (answer.ok) apply(await answer.json());
      } catch {
        // The stream of events shows that the connection is lost.
      }
      await new Promise((resolve) => setTimeout(resolve, 300));
    }
    isRunning = false;
  };
}

const loadStatus = loader("/status", (answer) => {
  status = answer;
  status.receivedAt = Date.now();
  render();
});

const loadHistory = loader(`/history?hours=${historyHours}`, (answer) => {
  history = answer;
  for (const scope of history.scopes) draw(scope.scope);
  renderPastChanges();
});

// Events

const connection = { source: null, lostSince: null, lastSign: Date.now(), sequences: new Map() };

function noteSign() {
  connection.lastSign = Date.now();
  if (connection.lostSince !== null || byID("connection").dataset.state !== "live") {
    connection.lostSince = null;
    byID("connection").dataset.state = "live";
    setText(byID("connection"), "live");
    loadStatus();
    loadHistory();
  }
}

function noteLoss() {
  if (connection.lostSince !== null) return;
  connection.lostSince = Date.now();
  byID("connection").dataset.state = "lost";
  renderTimes();
}

function applyPath(event) {
  const scope = status?.scopes.find((one) => one.scope === event.scope);
  if (!scope) return;
  if (scope.path.status !== event.path.status) {
    scope.since = event.time ?? scope.since;
    scope.sinceStart = false;
  }
  scope.path = event.path;
  // Until the evidence comes.
  const missing = event.path.reason ? reasonText(event.path.reason) : "";
  scope.summary = missing || (event.path.interface ? `via ${event.path.interface}` : event.path.status);
  renderScope(scope);
  renderTimes();
}

function receive(message, isTransition) {
  noteSign();
  const event = JSON.parse(message.data);
  const last = connection.sequences.get(event.scope);
  const missed = last === undefined ? 0 : event.sequence - last - (isTransition ? 1 : 0);
  connection.sequences.set(event.scope, event.sequence);
  if (missed > 0) {
    const text = `${missed} ${missed === 1 ? "change was" : "changes were"} missed here; the timeline has them`;
    addChange({ time: now(), scope: event.scope, status: "unknown", text });
  }
  if (isTransition) addChange(change(event));
  applyPath(event);
  loadStatus();
  loadHistory();
}

function connect() {
  connection.source?.close();
  connection.lastSign = Date.now();
  const source = new EventSource("/events");
  connection.source = source;
  source.addEventListener("open", noteSign);
  source.addEventListener("baseline", (message) => receive(message, false));
  source.addEventListener("transition", (message) => receive(message, true));
  source.addEventListener("alive", () => { noteSign(); loadStatus(); });
  source.addEventListener("queue", () => { noteSign(); loadStatus(); });
  source.addEventListener("fleet", () => { noteSign(); loadStatus(); });
  source.addEventListener("health", () => { noteSign(); loadStatus(); });
  source.addEventListener("error", noteLoss);
}

setInterval(() => {
  renderTimes();
  const isSilent = Date.now() - connection.lastSign > heartbeatLimit;
  if (isSilent) noteLoss();
  // A browser gives up after an answer that is no stream.
  if (isSilent || connection.source.readyState === EventSource.CLOSED) connect();
}, 1000);
// The window of the timeline moves on.
setInterval(loadHistory, 60_000);
loadStatus();
loadHistory();
connect();
