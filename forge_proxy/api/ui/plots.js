// Plots as drawings of the page itself: a strict content security policy allows no library from elsewhere.

import { count, el, percent, svg } from "./dom.js";

const WIDTH = 480;
const HEIGHT = 180;
const LEFT = 52;
const BOTTOM = 24;
const MAX_POINTS = 48;

/** Draw the share of valid responses over time, with guardrails and as the model wrote them. */
export function successPlot(hours, since, until) {
  const points = collect(hours, since, until);
  if (!points.length) return el("p", { class: "muted" }, "No request with tools in this period.");
  const x = (at) => LEFT + ((WIDTH - LEFT - 8) * (at - since)) / (until - since);
  const y = (share) => 8 + (HEIGHT - BOTTOM - 8) * (1 - share);
  const line = (name) => [
    svg("path", { class: name, d: points.map((one, at) => `${at ? "L" : "M"}${x(one.at)} ${y(one[name])}`).join("") }),
    ...points.map((one) =>
      svg("circle", { class: name, cx: x(one.at), cy: y(one[name]), r: 2.5 }, svg("title", {}, describe(one, name))),
    ),
  ];
  const last = points.at(-1);
  const label = `Valid responses over time; at the end ${percent(last.with)} with guardrails, ${percent(last.without)} without`;
  return svg(
    "svg",
    { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": label },
    [0, 0.5, 1].map((share) => [
      svg("line", { class: "axis", x1: LEFT, x2: WIDTH - 8, y1: y(share), y2: y(share) }),
      svg("text", { x: LEFT - 6, y: y(share) + 4, "text-anchor": "end" }, `${100 * share} %`),
    ]),
    svg("text", { x: LEFT, y: HEIGHT - 6 }, day(since)),
    svg("text", { x: WIDTH - 8, y: HEIGHT - 6, "text-anchor": "end" }, day(until)),
    line("without"),
    line("with"),
  );
}

/** Return the shares of up to 48 periods of equal length that have requests. */
function collect(hours, since, until) {
  const length = Math.max(3600, (until - since) / MAX_POINTS);
  const sums = new Map();
  for (const hour of hours) {
    const at = Math.max(0, Math.floor((hour.starts_at - since) / length));
    const sum = sums.get(at) ?? { clean: 0, valid: 0, judged: 0 };
    const valid = hour.clean + hour.repaired + hour.retried;
    sums.set(at, { clean: sum.clean + hour.clean, valid: sum.valid + valid, judged: sum.judged + valid + hour.exhausted });
  }
  return [...sums]
    .filter(([, sum]) => sum.judged)
    .sort(([left], [right]) => left - right)
    .map(([at, sum]) => ({
      at: Math.min(until, since + (at + 0.5) * length),
      with: sum.valid / sum.judged,
      without: sum.clean / sum.judged,
      judged: sum.judged,
    }));
}

/** Draw how many requests fall into each class: [upper bound in seconds, count]. */
export function bars(classes) {
  if (!classes.length) return el("p", { class: "muted" }, "No request in this period.");
  const most = Math.max(...classes.map(([, number]) => number));
  const width = (WIDTH - LEFT - 8) / classes.length;
  const y = (number) => 8 + (HEIGHT - BOTTOM - 8) * (1 - number / most);
  const names = classes.map(([bound]) => (bound === Infinity ? "more" : `${bound} s`));
  const label = `Requests by duration: ${classes.map(([, number], at) => `up to ${names[at]} ${number}`).join(", ")}`;
  return svg(
    "svg",
    { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": label },
    svg("line", { class: "axis", x1: LEFT, x2: WIDTH - 8, y1: y(0), y2: y(0) }),
    svg("text", { x: LEFT - 6, y: 18, "text-anchor": "end" }, count(most)),
    classes.map(([, number], at) => [
      svg(
        "rect",
        { class: "bar", x: LEFT + at * width + 1, y: y(number), width: Math.max(1, width - 2), height: y(0) - y(number) },
        svg("title", {}, `up to ${names[at]}: ${count(number)} requests`),
      ),
      at % Math.ceil(classes.length / 5) === 0 &&
        svg("text", { x: LEFT + (at + 0.5) * width, y: HEIGHT - 6, "text-anchor": "middle" }, names[at]),
    ]),
  );
}

function describe(one, name) {
  const kind = name === "with" ? "with guardrails" : "as the model wrote them";
  return `${new Date(1000 * one.at).toLocaleString()}: ${percent(one[name])} of ${count(one.judged)} ${kind}`;
}

function day(seconds) {
  return new Date(1000 * seconds).toLocaleDateString();
}
