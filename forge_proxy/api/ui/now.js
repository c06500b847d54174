// What happens now: requests under way, interventions, model server, queue, budget, guardrails, the latest requests.

import { api } from "./api.js";
import { card, count, el, facts } from "./dom.js";
import { interventions, liveRequests } from "./live.js";
import { requestTable } from "./requests.js";

const INTERVAL = 2000; // milliseconds between two readings while the page is visible
const SWITCHES = {
  respond: "Offer respond",
  rescue: "Recover calls from text",
  validate: "Validate calls",
  retry: "Retry",
  loops: "Cut loops",
  repeats: "Repeated calls",
  early_end: "Early end",
};
const MODES = ["backend", "manual", "forge-full", "forge-fast"];

export async function now({ main, signal, report }) {
  const cards = el("div", { class: "cards" });
  const latest = el("section", { class: "card" });
  const changes = controls(signal, report);
  const log = serverLog(signal);
  let budget = null;
  let listed = null;
  const live = liveRequests(signal, report, () => budget);
  main.replaceChildren(live, cards, interventions(signal), latest, log);
  while (!signal.aborted) {
    if (!document.hidden) {
      try {
        const [status, recent, models] = await Promise.all([
          api("status", { signal }),
          api("requests?limit=10", { signal }).catch(() => null),
          listed ?? api("models", { signal }).catch(() => null), // a model server that is loading lists none
        ]);
        listed = models;
        budget = status.budget.tokens;
        // A card that is being used is not replaced under the fingers of its user.
        if (!cards.contains(document.activeElement)) cards.replaceChildren(...changes(status, models?.data ?? []));
        if (recent) showLatest(latest, recent.data);
        report();
      } catch (error) {
        if (signal.aborted) return;
        if (!cards.hasChildNodes()) throw error;
        report(error);
      }
    }
    await new Promise((resolve) => setTimeout(resolve, INTERVAL));
  }
}

function showLatest(section, data) {
  if (section.contains(document.activeElement)) return;
  const shown = data.length ? requestTable("The last ten that have ended", data) : el("p", {}, "None has ended yet.");
  section.replaceChildren(el("h2", {}, "Latest requests"), shown);
}

/** Return a function that builds the cards of a status. */
function controls(signal, report) {
  const change = async (path, method, body) => {
    try {
      await api(path, { method, body, signal });
      report();
    } catch (error) {
      report(error);
    }
    document.activeElement?.blur();
  };
  return (status, models) => [
    serverCard(status, models, change),
    queueCard(status),
    budgetCard(status, change),
    guardrailsCard(status, change),
  ];
}

function serverCard({ backend, hardware, uptime_seconds: uptime }, models, change) {
  const { health, server } = backend;
  const tone = health.status === "ok" ? "good" : health.status === "loading" ? "warn" : "bad";
  const buttons = ["start", "stop", "restart"].map((action) =>
    el("button", { type: "button", onclick: () => change(`backend/${action}`, "POST") }, action),
  );
  return card(
    "Model server",
    facts([
      ["health", el("span", { class: tone }, `${health.status} ${health.detail ?? ""}`.trim())],
      ["kind", backend.kind],
      ["state", server && `${server.state} ${server.detail}`.trim()],
      ["model", server?.model],
      ["graphics", hardware.gpus.map((gpu) => gpu.name).join(", ")],
      ["daemon", `up ${uptimeText(uptime)}`],
    ]),
    server && isLoading(server) && el("progress", { "aria-label": "Progress of the model server" }),
    server && el("p", { class: "buttons" }, buttons),
    server && models.length > 1 && modelForm(server, models, change),
  );
}

function modelForm(server, models, change) {
  const options = models.map(({ id }) => el("option", { selected: id === server.model }, id));
  const model = el("select", { id: "model" }, options);
  const send = (event) => {
    event.preventDefault();
    change("backend/model", "POST", { model: model.value });
  };
  const field = el("label", { for: "model" }, "Model of the catalog", model);
  return el("form", { class: "filters", onsubmit: send }, field, el("button", {}, "Load"));
}

function isLoading({ state }) {
  return state === "loading" || state === "starting";
}

function uptimeText(seconds) {
  const [size, unit] = seconds < 120 ? [1, "seconds"] : seconds < 7200 ? [60, "minutes"] : [3600, "hours"];
  return `${Math.floor(seconds / size)} ${unit}`;
}

function queueCard({ queue, memory }) {
  return card(
    "Queue",
    facts([
      ["running", `${queue.running} of ${queue.slots ?? "any number of"} slots`],
      ["waiting", String(queue.waiting)],
      ["state", queue.paused ? el("span", { class: "warn" }, "paused: requests wait") : "open"],
      ["memory", `${memory.used_mb.toFixed(1)} of ${Math.round(memory.limit_mb)} MB`],
    ]),
  );
}

function budgetCard({ budget }, change) {
  const mode = el("select", { id: "mode" }, MODES.map((name) => el("option", { selected: name === budget.mode }, name)));
  const tokens = el("input", { id: "tokens", type: "number", min: "1", value: budget.tokens ?? "" });
  const send = (event) => {
    event.preventDefault();
    const manual = mode.value === "manual" ? { tokens: Number(tokens.value) } : {};
    change("budget", "PUT", { mode: mode.value, ...manual });
  };
  return card(
    "Context budget",
    facts([["tokens", count(budget.tokens) || "unknown"], ["reason", budget.reason]]),
    el(
      "form",
      { class: "filters", onsubmit: send },
      el("label", { for: "mode" }, "Mode", mode),
      el("label", { for: "tokens" }, "Tokens, for manual", tokens),
      el("button", {}, "Switch"),
    ),
  );
}

function guardrailsCard({ guardrails }, change) {
  const boxes = Object.entries(SWITCHES).map(([name, label]) => {
    const toggle = (event) => change("guardrails", "PATCH", { enabled: { [name]: event.target.checked } });
    const box = el("input", { type: "checkbox", checked: guardrails.enabled[name], onchange: toggle });
    return el("label", {}, box, ` ${label}`);
  });
  return card("Guardrails", el("fieldset", {}, el("legend", {}, "For all later requests"), boxes));
}

/** Return the end of the model server's log, which is read when it is opened. */
function serverLog(signal) {
  const text = el("pre", { tabindex: "0" });
  const read = async (event) => {
    if (!event.target.open) return;
    try {
      const found = await api("backend/logs?lines=100", { signal });
      text.textContent = found.lines.join("\n");
    } catch (error) {
      text.textContent = error.message;
    }
  };
  return el("details", { class: "card", ontoggle: read }, el("summary", {}, "Log of the model server"), text);
}
