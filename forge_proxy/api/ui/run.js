// One run: its state, the calls that wait for an output, and its events as they happen.

import { api } from "./api.js";
import { card, count, el, facts, time } from "./dom.js";
import { follow } from "./stream.js";

const ENDED = ["completed", "failed", "cancelled"];
const TONES = { completed: "good", failed: "bad", cancelled: "muted", requires_action: "warn" };
const MEANINGS = { output: "output", error: "the tool failed", unresolved: "nothing has that name" };
const SHOWN = 500; // events that are kept on the page
const REFRESH = 150; // milliseconds after an event until the state is read

export async function run({ main, signal, argument, report }) {
  const path = `runs/${encodeURIComponent(argument)}`;
  const state = el("section", { class: "card" });
  const calls = el("section", { class: "card" });
  const events = el("ol", { class: "events", "aria-label": "Events of the run", tabindex: "0" });
  const forms = new Map(); // by call: a text that is being written must survive a change of the run
  const refresh = async () => {
    const one = await api(path, { signal });
    state.replaceChildren(...describeState(one, () => change("cancel")));
    const waiting = new Set(one.required_action.map(({ id }) => id));
    for (const [id, form] of forms) if (!waiting.has(id)) form.remove(), forms.delete(id);
    for (const call of one.required_action) {
      if (forms.has(call.id)) continue;
      forms.set(call.id, callForm(call, change));
      calls.append(forms.get(call.id));
    }
    calls.hidden = !waiting.size;
  };
  const attempt = async (work) => {
    try {
      await work();
      report();
    } catch (error) {
      if (!signal.aborted) report(error);
    }
  };
  const change = (where, body) =>
    attempt(async () => {
      await api(`${path}/${where}`, { method: "POST", body, signal });
      await refresh();
    });
  let due;
  calls.append(el("h2", {}, "Waiting for outputs"));
  await refresh();
  main.replaceChildren(state, calls, card("Events", events));
  for await (const { type, data, error } of follow(`${path}/events`, signal)) {
    report(error);
    if (type === "error") continue;
    events.append(el("li", {}, el("strong", {}, type), " ", el("span", {}, describeEvent(type, data))));
    if (events.childElementCount > SHOWN) events.firstElementChild.remove();
    if (type !== "status" && type !== "iteration") continue;
    clearTimeout(due); // earlier events arrive all at once
    due = setTimeout(() => attempt(refresh), REFRESH);
    if (ENDED.includes(data.status)) return;
  }
}

function describeState(one, cancel) {
  const failure = one.error && `${one.error.type}: ${one.error.message}`;
  return [
    el("h2", {}, `Run of ${one.workflow}`),
    facts([
      ["id", el("code", {}, one.id)],
      ["status", el("span", { class: TONES[one.status] }, one.status)],
      ["created", time(one.created_at)],
      ["model", one.model],
      ["iteration", count(one.iteration)],
      ["completed", one.completed_steps.join(", ")],
      ["pending", one.pending_steps.join(", ")],
      ["error", failure],
    ]),
    one.result && el("pre", { tabindex: "0", "aria-label": "Result" }, JSON.stringify(one.result.result, null, 2)),
    !ENDED.includes(one.status) &&
      el("p", { class: "buttons" }, el("button", { type: "button", onclick: cancel, disabled: one.cancel_requested }, "Cancel")),
  ].filter(Boolean);
}

/** Return the form for the output of one call. */
function callForm({ id, function: called }, change) {
  const name = `${called.name} (${id})`;
  const meaning = el("select", { "aria-label": `Kind of the output of ${name}` }, Object.entries(MEANINGS).map(([value, text]) => el("option", { value }, text)));
  const text = el("textarea", { rows: "3", "aria-label": `Output of ${name}`, placeholder: "JSON, or else text" });
  const send = (event) => {
    event.preventDefault();
    const value = meaning.value === "output" ? readValue(text.value) : text.value;
    change("tool_outputs", { outputs: [{ tool_call_id: id, [meaning.value]: value }] });
  };
  return el(
    "form",
    { class: "output", onsubmit: send },
    el("p", {}, el("code", {}, `${called.name}(${called.arguments})`)),
    meaning,
    text,
    el("button", {}, "Send"),
  );
}

/** Return a text as JSON if it is JSON, else as it is, like `forge-proxy runs outputs`. */
function readValue(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** Return an event in one line. */
function describeEvent(type, data) {
  if (type === "status") return [data.status, data.error].filter(Boolean).join(": ");
  if (type === "message") return [data.role, data.content, ...(data.tool_calls ?? []).map(describeCall)].filter(Boolean).join(" · ");
  if (type === "tool_finished") return `${data.tool}: ${data.status}`;
  if (type === "tool_started") return data.tool;
  return Object.entries(data)
    .filter(([name]) => name !== "id")
    .map(([name, value]) => `${name} ${typeof value === "object" ? JSON.stringify(value) : value}`)
    .join(", ");
}

function describeCall({ function: called }) {
  return `${called.name}(${called.arguments})`;
}
