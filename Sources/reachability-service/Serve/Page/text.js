// Text and elements. Text of others is only ever set as text.

const invisible = /[\p{C}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]|(?! )\p{Zs}/gu;

// Characters that are invisible, or turn the text around them, are shown by their numbers, as on the command line.
export function shown(text) {
  return String(text ?? "").replace(invisible, (character) => `\\u{${character.codePointAt(0).toString(16)}}`);
}

// Makes an element; children are elements or text.
export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined) made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== null && child !== ""));
  return made;
}

export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

// The name of a kind in words: familyLost becomes "family lost".
export const spaced = (name) => shown(name).replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);

// As OfflineReason.description.
const reasons = {
  noInterface: "no network interface",
  adminDown: "interface is shut down",
  noCarrier: "no carrier",
  dormant: "interface is dormant",
  noAddress: "no usable address",
  addressTentative: "address is still being checked for duplicates",
  noRoute: "no route",
  unreachable: "a route says unreachable",
  prohibited: "a route says prohibited",
  blackhole: "a route is a blackhole",
  unresolved: "the host's name has no address",
};

// As FleetNode.reasonText.
reasons.captivePortal = "captive portal";
reasons.validationFailed = "the check of the internet fails";

export const reasonText = (name) => reasons[name] ?? spaced(name);

export const capitalized = (text) => text.charAt(0).toUpperCase() + text.slice(1);

const two = (number) => String(number).padStart(2, "0");

// Local time, and its date.
export function hour(time) {
  const date = new Date(time);
  return `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}

export function day(time) {
  const date = new Date(time);
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
}

// Local time, with the date unless it is today's.
export const clock = (time) => (day(Date.now()) === day(time) ? hour(time) : `${day(time)} ${hour(time)}`);

export function timeElement(time, format) {
  return element("time", { datetime: new Date(time).toISOString() }, format(time));
}

// As on the command line: two units, rounded down.
export function duration(milliseconds) {
  const seconds = Math.max(0, Math.floor(milliseconds / 1000));
  const pair = (first, unit, second, small) => (second ? `${first}${unit} ${second}${small}` : `${first}${unit}`);
  if (seconds < 60) return `${seconds}s`;
  if (seconds < 3600) return pair(Math.floor(seconds / 60), "m", seconds % 60, "s");
  if (seconds < 86_400) return pair(Math.floor(seconds / 3600), "h", Math.floor(seconds / 60) % 60, "m");
  return pair(Math.floor(seconds / 86_400), "d", Math.floor(seconds / 3600) % 24, "h");
}

// As on the command line, where a flap of less than a second is not "0s".
export function length(milliseconds) {
  return milliseconds > 0 && milliseconds < 1000 ? `${Math.max(1, Math.floor(milliseconds))}ms` : duration(milliseconds);
}
