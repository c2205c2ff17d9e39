// The timeline of one scope: a drawing, its words and its outages as a table.

import { clock, duration, element, length, reasonText, setText, shown } from "/text.js";

const svg = "http://www.w3.org/2000/svg";
const height = 44;
const groups = {
  link: ["noInterface", "adminDown", "noCarrier", "dormant"],
  address: ["noAddress", "addressTentative"],
  route: ["noRoute", "unreachable", "prohibited", "blackhole"],
  name: ["unresolved"],
};
let drawings = 0;
const groupWords = { link: "link", address: "address", route: "route", name: "name lookup", other: "other" };

function group(reason) {
  return Object.keys(groups).find((name) => groups[name].includes(reason)) ?? "other";
}

const start = (span) => Date.parse(span.start);
const end = (span) => Date.parse(span.end);

function total(spans) {
  return spans.reduce((sum, span) => sum + end(span) - start(span), 0);
}

export function summary(scope, history) {
  const of = (status) => total(scope.spans.filter((span) => span.status === status));
  const [online, offline, unknown] = [of("satisfied"), of("unsatisfied"), of("unknown")];
  const outages = scope.outages + scope.flaps;
  const watched = online + offline;
  const parts = [];
  if (watched > 0) {
    // Rounded down: 100 % only without any outage.
    const percent = Math.floor((online / watched) * 100_000) / 1000;
    parts.push(`online ${percent} % of the watched time`);
    const count = `${outages} ${outages === 1 ? "outage" : "outages"}`;
    parts.push(outages === 0 ? "no outage" : `${count}, ${length(offline)}`);
  }
  if (unknown >= 1000) parts.push(`not watched for ${duration(unknown)}`);
  return `Last ${history.hours} hours: ${parts.join(", ") || "nothing known yet"}.`;
}

function shape(name, attributes, ...children) {
  const made = document.createElementNS(svg, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function words(span) {
  const time = `${clock(start(span))} – ${clock(end(span))} (${length(end(span) - start(span))})`;
  if (span.status === "satisfied") return `online${span.interface ? ` via ${shown(span.interface)}` : ""}: ${time}`;
  if (span.status === "unknown") return `not watched: ${time}`;
  return `offline, ${reasonText(span.reason)}${span.cause ? ` (${shown(span.cause)})` : ""}: ${time}`;
}

export function drawTimeline(place, scope, history, label) {
  const width = Math.floor(place.clientWidth);
  if (width < 50) return;
  const [from, until] = [Date.parse(history.from), Date.parse(history.until)];
  const x = (time) => ((time - from) / (until - from)) * width;
  const drawing = shape("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
  const hatchID = `hatch-${(drawings += 1)}`;
  const hatch = shape(
    "pattern", { id: hatchID, width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
    shape("rect", { width: 6, height: 6, class: "hatch-ground" }), shape("rect", { width: 2, height: 6, class: "hatch-line" }));
  drawing.append(shape("defs", {}, hatch));
  // Outages last, and never too thin to be seen.
  const order = [...scope.spans].sort((one, other) => (one.status === "unsatisfied") - (other.status === "unsatisfied"));
  for (const span of order) {
    const left = Math.max(0, x(start(span)));
    const wide = Math.max(span.status === "unsatisfied" ? 2.5 : 0, Math.min(width, x(end(span))) - left);
    const place = { x: left.toFixed(2), width: wide.toFixed(2) };
    const kinds = {
      satisfied: { y: 16, height: 12, class: "online" },
      unsatisfied: { y: 4, height: 36, class: `offline ${group(span.reason)}` },
      unknown: { y: 4, height: 36, fill: `url(#${hatchID})` },
    };
    drawing.append(shape("rect", { ...place, ...kinds[span.status] }, shape("title", {}, words(span))));
  }
  place.replaceChildren(drawing, axis(from, until, x, width), ...legend(scope));
}

function axis(from, until, x, width) {
  const hours = (until - from) / 3_600_000;
  const step = [1, 2, 3, 6, 12, 24, 48, 168].find((hour) => (width / hours) * hour >= 76) ?? 720;
  const made = shape("svg", { width, height: 18, viewBox: `0 0 ${width} 18`, "aria-hidden": "true", class: "axis" });
  const first = new Date(from);
  first.setMinutes(0, 0, 0);
  for (let date = first; date.getTime() <= until; date.setHours(date.getHours() + 1)) {
    const time = date.getTime();
    if (time < from || date.getHours() % Math.min(step, 24) !== 0) continue;
    const at = x(time);
    made.append(shape("line", { x1: at, x2: at, y1: 0, y2: 4 }));
    const anchor = at < 20 ? "start" : at > width - 20 ? "end" : "middle";
    made.append(shape("text", { x: at, y: 15, "text-anchor": anchor }, `${String(date.getHours()).padStart(2, "0")}:00`));
  }
  return made;
}

function legend(scope) {
  const outages = outagesOf(scope);
  const items = [...Object.keys(groups), "other"].flatMap((name) => {
    // An outage whose reason changes within a group counts once in it.
    const parts = outages.map((spans) => spans.filter((span) => group(span.reason) === name)).filter((spans) => spans.length > 0);
    return parts.length === 0 ? [] : [[name, `${groupWords[name]}: ${parts.length}, ${length(total(parts.flat()))}`]];
  });
  if (scope.spans.some((span) => span.status === "unknown")) items.push(["unwatched", "not watched"]);
  if (items.length === 0) return [];
  const made = element("ul", { class: "legend" });
  for (const [name, text] of items) made.append(element("li", {}, element("span", { class: `key ${name}` }), text));
  return [made];
}

// The outages, each with its spans: a time without a path, whatever the reasons were meanwhile.
function outagesOf(scope) {
  const found = [];
  scope.spans.forEach((span, index) => {
    if (span.status !== "unsatisfied") return;
    if (index > 0 && scope.spans[index - 1].status === "unsatisfied") found.at(-1).push(span);
    else found.push([span]);
  });
  return found;
}

// Makes an empty list of outages.
//
// The roles are written out: the grid that rows are on narrow screens would take them away.
export function makeOutages() {
  const columns = ["Begin", "Length", "Reason", "Cause"];
  const head = element("tr", { role: "row" }, ...columns.map((text) => element("th", { role: "columnheader" }, text)));
  const table = element(
    "table", { role: "table", "aria-label": "Outages" }, element("thead", { role: "rowgroup" }, head),
    element("tbody", { role: "rowgroup" }));
  const region = element("div", { class: "scroll", tabindex: "0", role: "region" }, table);
  return element("details", { hidden: "" }, element("summary"), region);
}

// Fills a list of outages. Its elements stay, and with them the focus, the position, and what is open.
export function fillOutages(list, scope) {
  const outages = outagesOf(scope).reverse();
  const text = `The outages as a list${outages.length > 100 ? " (the last 100)" : ""}`;
  list.hidden = outages.length === 0;
  setText(list.querySelector("summary"), text);
  list.querySelector(".scroll").setAttribute("aria-label", text);
  const rows = outages.slice(0, 100).map((spans) => {
    const reasons = [...new Set(spans.map((span) => reasonText(span.reason)))].join(", then ");
    const cells = [clock(start(spans[0])), length(total(spans)), reasons, element("bdi", {}, shown(spans[0].cause))];
    return element("tr", { role: "row" }, ...cells.map((cell) => element("td", { role: "cell" }, cell)));
  });
  list.querySelector("tbody").replaceChildren(...rows);
}
