// The finished requests, and one of them with its attempts.

import { api } from "./api.js";
import { contents } from "./contents.js";
import { card, count, duration, el, facts, table, time } from "./dom.js";

const RESULTS = ["clean", "rescued", "repaired", "retried", "exhausted", "failed", "abandoned", "passthrough"];
const TONES = { clean: "good", rescued: "warn", repaired: "warn", retried: "warn", exhausted: "bad", failed: "bad" };

export async function requests({ main, signal, argument }) {
  const chosen = new URLSearchParams(argument);
  const page = await api(`requests?${chosen}`, { signal });
  main.replaceChildren(
    filters(chosen),
    page.data.length ? requestTable("Finished requests, newest first", page.data) : el("p", {}, "No request was found."),
    el("p", {}, page.next && el("a", { href: address(chosen, { before: page.next }) }, "Older requests")),
  );
}

/** Return a table of requests; each links to its attempts. */
export function requestTable(caption, data) {
  return table(
    caption,
    [
      ["ended", (one) => el("a", { href: `#/requests/${one.number}` }, time(one.ended_at))],
      ["result", (one) => result(one.result)],
      ["faults", (one) => one.faults.join(", ") || one.error],
      ["model", (one) => one.served ?? one.model ?? ""],
      ["client", (one) => [one.client, one.program].filter(Boolean).join(" ")],
      ["API", (one) => one.surface],
      ["first output", (one) => duration(one.first_output), "number"],
      ["total", (one) => duration(one.seconds), "number"],
      ["tokens", (one) => count((one.tokens.prompt ?? 0) + (one.tokens.completion ?? 0)), "number"],
    ],
    data,
  );
}

export async function request({ main, signal, argument }) {
  const one = await api(`requests/${encodeURIComponent(argument)}`, { signal });
  const tokens = Object.entries(one.tokens).filter(([, number]) => number !== null);
  main.replaceChildren(
    card(
      `Request ${one.number}`,
      facts([
        ["id", el("code", {}, one.request_id)],
        ["ended", time(one.ended_at)],
        ["result", result(one.result)],
        ["error", one.error],
        ["model", [one.served ?? one.model, one.quantization].filter(Boolean).join(" ")],
        ["client", [one.client, one.program].filter(Boolean).join(" ")],
        ["API", one.surface + (one.streamed ? ", streamed" : "")],
        ["tools", `${one.tools} offered`],
        ["queue", duration(one.queued)],
        ["first output", duration(one.first_output)],
        ["model server", duration(one.backend_seconds)],
        ["forge-proxy", duration(one.overhead_seconds)],
        ["total", duration(one.seconds)],
        ["tokens", tokens.map(([name, number]) => `${name} ${count(number)}`).join(", ") || "not reported"],
        ["on retries", `${count(one.retry_tokens)} tokens`],
        ["calls", one.calls.map((call) => `${call.tool} (${call.outcome})`).join(", ")],
      ]),
      one.interventions.length > 0 && el("h3", {}, "Interventions"),
      one.interventions.length > 0 && el("ul", {}, one.interventions.map((text) => el("li", {}, text))),
    ),
    card("Attempts", attempts(one.all_attempts)),
    ...contents(one, signal),
    el("p", {}, el("a", { href: "#/requests" }, "All requests")),
  );
}

function attempts(all) {
  if (!all.length) return el("p", {}, "The request ended before the first attempt.");
  return table(
    "In order; the last one was delivered",
    [
      ["attempt", (one) => String(one.number), "number"],
      ["fault", (one) => (one.fault ? el("span", { class: "warn" }, one.fault) : "none")],
      ["tool", (one) => one.tool],
      ["reason", (one) => one.reason],
      ["time", (one) => duration(one.seconds), "number"],
      ["prompt", (one) => count(one.tokens.prompt), "number"],
      ["cached", (one) => count(one.tokens.cached), "number"],
      ["completion", (one) => count(one.tokens.completion), "number"],
    ],
    all,
  );
}

function result(name) {
  return el("span", { class: TONES[name] }, name);
}

function filters(chosen) {
  const choose = (event) => {
    event.preventDefault();
    location.hash = address(new URLSearchParams(new FormData(event.target)), { before: null });
  };
  const results = ["", ...RESULTS].map((name) =>
    el("option", { value: name, selected: chosen.get("result") === name }, name || "any"),
  );
  const field = (name) => el("input", { id: name, name, value: chosen.get(name) ?? "" });
  return el(
    "form",
    { class: "filters", onsubmit: choose, "aria-label": "Filter" },
    el("label", { for: "result" }, "Result", el("select", { id: "result", name: "result" }, results)),
    ...["fault", "model", "client"].map((name) => el("label", { for: name }, name, field(name))),
    el("button", {}, "Show"),
  );
}

function address(chosen, changes) {
  const parameters = new URLSearchParams(chosen);
  for (const [name, value] of Object.entries(changes)) value ? parameters.set(name, value) : parameters.delete(name);
  for (const [name, value] of [...parameters]) if (!value) parameters.delete(name);
  return `#/requests${parameters.size ? `?${encodeURIComponent(parameters)}` : ""}`;
}
