// Builds elements. Text is always set as text: names and errors come from models and clients.

const SVG = "http://www.w3.org/2000/svg";

/** Return an element with attributes and children; strings become text, null and false are left out. */
export function el(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children);
}

/** The same for elements of a drawing. */
export function svg(name, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, name), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (typeof value === "boolean") element.toggleAttribute(name, value);
    else if (value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** Return a list of names and values. Rows without a value are left out. */
export function facts(rows) {
  const shown = rows.filter(([, value]) => value !== null && value !== undefined && value !== "");
  return el("dl", {}, shown.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));
}

/** Return a table. A column is [heading, cell of a row, "number" for figures]. */
export function table(caption, columns, rows) {
  const head = el("tr", {}, columns.map(([name, , kind]) => el("th", { scope: "col", class: kind }, name)));
  const body = rows.map((row) => el("tr", {}, columns.map(([, cell, kind]) => el("td", { class: kind }, cell(row)))));
  const whole = el("table", {}, el("caption", {}, caption), el("thead", {}, head), el("tbody", {}, body));
  return el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption }, whole);
}

/** Return a card with a heading. */
export function card(title, ...children) {
  return el("section", { class: "card" }, el("h2", {}, title), ...children);
}

export const time = (seconds) => new Date(1000 * seconds).toLocaleString();
export const duration = (seconds) =>
  seconds === null ? "" : seconds < 1 ? `${Math.round(1000 * seconds)} ms` : `${seconds.toFixed(2)} s`;
export const percent = (share) => (share === null ? "none yet" : `${(100 * share).toFixed(1)} %`);
export const count = (number) => (number === null ? "" : number.toLocaleString());
