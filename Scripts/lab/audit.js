// Returns the faults of a page that a person would stumble over, each as a sentence: texts without contrast (WCAG 2.2 §1.4.3),
// content that does not fit the width (§1.4.10), small targets (§2.5.8), and an outline of headings with gaps.
function audit() {
  const faults = [];
  const channels = (text) => {
    const numbers = text.match(/[\d.]+/g).map(Number);
    return [...numbers.slice(0, 3), numbers.length > 3 ? numbers[3] : 1];
  };
  const over = (top, ground) => {
    const mixed = [0, 1, 2].map((index) => top[index] * top[3] + ground[index] * (1 - top[3]));
    return [...mixed, 1];
  };
  const luminance = (color) => {
    const linear = color.slice(0, 3).map((value) => value / 255).map(
      (value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4));
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
  };
  const contrast = (one, other) => {
    const [low, high] = [luminance(one), luminance(other)].sort((first, second) => first - second);
    return (high + 0.05) / (low + 0.05);
  };
  // The colors of an element as they are seen, those of transparent groups included.
  const seen = (element) => {
    const chain = [];
    for (let node = element; node; node = node.parentElement) chain.unshift(node);
    let [ground, groups] = [[255, 255, 255, 1], 1];
    if (matchMedia("(prefers-color-scheme: dark)").matches) ground = [0, 0, 0, 1];
    let behind = ground;
    for (const node of chain) {
      const style = getComputedStyle(node);
      // What is drawn has a fill, and no ground of its own.
      if (node instanceof SVGElement && node.parentElement instanceof SVGElement) continue;
      if (style.opacity !== "1") [groups, behind] = [groups * Number(style.opacity), ground];
      const color = channels(style.backgroundColor);
      color[3] *= groups;
      ground = over(color, ground);
    }
    const style = getComputedStyle(element);
    const text = channels(element instanceof SVGElement ? style.fill : style.color);
    text[3] *= groups;
    return [over(text, groups < 1 ? over([...ground.slice(0, 3), groups], behind) : ground), ground];
  };
  const isSeen = (element) => {
    const box = element.getBoundingClientRect();
    return element.checkVisibility({ opacityProperty: true, visibilityProperty: true }) && box.width > 1 && box.height > 1;
  };
  const named = (element) => `<${element.localName} class="${element.getAttribute("class") ?? ""}">`;

  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const judged = new Set();
  while (texts.nextNode()) {
    const element = texts.currentNode.parentElement;
    const text = texts.currentNode.data.trim();
    if (!text || judged.has(element) || ["title", "desc", "style", "script"].includes(element.localName)) continue;
    if (!isSeen(element) || element.closest(".hidden, .skip:not(:focus)")) continue;
    judged.add(element);
    const style = getComputedStyle(element);
    const size = parseFloat(style.fontSize);
    const least = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700) ? 3 : 4.5;
    const [color, ground] = seen(element);
    const found = contrast(color, ground);
    if (found < least) faults.push(`contrast ${found.toFixed(2)} of ${least}: ${named(element)} ${text.slice(0, 40)}`);
    if (size < 11) faults.push(`text of ${size} px: ${named(element)} ${text.slice(0, 40)}`);
  }
  // What is drawn and not written has to stand out, too (§1.4.11).
  for (const element of document.querySelectorAll("rect.offline, rect.off")) {
    const found = contrast(...seen(element));
    if (found < 3) faults.push(`contrast ${found.toFixed(2)} of 3: ${named(element)}`);
  }

  const width = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth > width) faults.push(`${document.documentElement.scrollWidth} px in ${width} px`);
  for (const element of document.body.querySelectorAll("*")) {
    if (!isSeen(element) || element.closest(".scroll, .skip, .hidden, thead, defs")) continue;
    const box = element.getBoundingClientRect();
    if (box.right > width + 2 || box.left < -2) faults.push(`${named(element)} reaches from ${box.left} to ${box.right}`);
  }
  for (const element of document.querySelectorAll("nav a, button, summary")) {
    const box = element.getBoundingClientRect();
    if (isSeen(element) && box.height < 24) faults.push(`${named(element)} is only ${box.height} px high`);
  }

  let level = 0;
  for (const heading of document.querySelectorAll("h1, h2, h3, h4")) {
    const own = Number(heading.localName[1]);
    if (own > level + 1) faults.push(`h${own} after h${level}: ${heading.textContent}`);
    level = own;
  }
  if (document.querySelectorAll("h1").length !== 1) faults.push("not exactly one h1");
  const ids = [...document.querySelectorAll("[id]")].map((element) => element.id);
  if (new Set(ids).size !== ids.length) faults.push(`an id is there twice: ${ids}`);
  if (!document.title || !document.documentElement.lang) faults.push("no title or no language");
  return faults;
}
audit();
