// The reliability ledger: what the guardrails were worth, over time and by tool.

import { api } from "./api.js";
import { card, count, el, percent, table } from "./dom.js";
import { bars, successPlot } from "./plots.js";

const PERIODS = { "24 hours": 86400, "7 days": 604800, "30 days": 2592000, "a year": 31536000 };

export async function ledger({ main, signal, argument }) {
  const chosen = Number(new URLSearchParams(argument).get("period")) || PERIODS["7 days"];
  const until = Date.now() / 1000;
  const found = await api(`ledger?since=${Math.max(0, until - chosen)}`, { signal });
  main.replaceChildren(
    el("p", { class: "lead" }, found.summary),
    el("p", { class: "buttons" }, periods(chosen)),
    el(
      "div",
      { class: "cards" },
      card("Valid responses", legend(found), successPlot(found.hours, found.since, found.until)),
      card("Time to the first output", bars(classes(found, "first_output"))),
      card("Total time", bars(classes(found, "total"))),
    ),
    card("Faults by tool", found.rows.length ? rows(found.rows) : el("p", {}, "Nothing was counted in this period.")),
  );
}

function periods(chosen) {
  return Object.entries(PERIODS).map(([name, seconds]) =>
    el("a", { href: `#/ledger?${encodeURIComponent(`period=${seconds}`)}`, "aria-current": seconds === chosen && "true" }, name),
  );
}

function legend({ valid_with: guarded, valid_without: bare }) {
  const range = (rate) => (rate.value === null ? "" : ` (${percent(rate.low)} to ${percent(rate.high)})`);
  return el(
    "p",
    {},
    el("span", { class: "key-with" }, `with guardrails ${percent(guarded.value)}${range(guarded)}`),
    el("br"),
    el("span", { class: "key-without" }, `as the model wrote them ${percent(bare.value)}${range(bare)}`),
  );
}

/** Return the classes of a measure, added up over the models, from the first to the last that has a request. */
function classes(found, measure) {
  const bounds = [...found.duration_bounds, Infinity];
  const sums = bounds.map(() => 0);
  for (const one of found.durations.filter((one) => one.measure === measure)) {
    sums[bounds.indexOf(one.up_to ?? Infinity)] += one.count;
  }
  const last = sums.findLastIndex((sum) => sum > 0);
  const first = sums.findIndex((sum) => sum > 0);
  return last < 0 ? [] : bounds.slice(first, last + 1).map((bound, at) => [bound, sums[first + at]]);
}

function rows(data) {
  return table(
    "By model, tool and fault",
    [
      ["model", (row) => [row.model, row.quantization].filter(Boolean).join(" ")],
      ["tool", (row) => row.tool || "(no call)"],
      ["fault", (row) => row.fault || "none"],
      ["calls", (row) => count(row.calls), "number"],
      ["share", (row) => percent(row.share.value), "number"],
      ["95 %", (row) => `${percent(row.share.low)} to ${percent(row.share.high)}`, "number"],
      ["repaired", (row) => count(row.repaired), "number"],
      ["retried", (row) => count(row.retried), "number"],
      ["failed", (row) => count(row.failed), "number"],
      ["tokens", (row) => count(row.tokens), "number"],
      ["seconds", (row) => row.seconds.toFixed(1), "number"],
    ],
    data,
  );
}
