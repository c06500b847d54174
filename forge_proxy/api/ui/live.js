// The requests under way, with their phases, and the interventions as they happen.

import { api } from "./api.js";
import { count, el } from "./dom.js";
import { follow } from "./stream.js";

const SHOWN = 30; // interventions that are kept on the page
const TONES = { queued: "muted", loading: "warn", retrying: "warn", buffering: "warn" };
const INTERVENTIONS = ["retried", "answered", "compacted", "loop", "failed", "prompt truncated", "unusable schemas"];
const UNCHANGED = ["passthrough", "clean"]; // outcomes of responses that needed no help

/** Return the section of the requests under way, which follows them. `context` returns the budget in tokens. */
export function liveRequests(signal, report, context) {
  const heading = el("h2", {}, "Requests under way");
  const note = el("p", { class: "muted" }, "Connecting");
  const list = el("ul", { class: "live" });
  const rows = new Map();
  const draw = ({ requests, count: all }) => {
    const current = numbered(requests);
    for (const [key, row] of rows) if (!current.has(key)) row.item.remove(), rows.delete(key);
    for (const [key, one] of current) {
      if (!rows.has(key)) {
        const row = liveRow(one, signal, report);
        rows.set(key, row);
        list.append(row.item);
      }
      rows.get(key).update(one, context());
    }
    heading.textContent = all ? `Requests under way: ${all}` : "Requests under way";
    note.textContent = all > requests.length ? `The oldest ${requests.length} are shown.` : all ? "" : "None now.";
    note.hidden = !note.textContent;
  };
  (async () => {
    for await (const { type, data, error } of follow("requests/stream", signal)) {
      if (type === "message") draw(data);
      else [note.textContent, note.hidden] = [error?.message ?? "The daemon is stopping.", false];
    }
  })();
  return el("section", { class: "card" }, heading, note, list);
}

/** Return the requests by keys of their own: clients may use an id more than once. */
function numbered(requests) {
  const found = new Map();
  for (const one of requests) {
    let number = 0;
    while (found.has(`${one.request_id} ${number}`)) number += 1;
    found.set(`${one.request_id} ${number}`, one);
  }
  return found;
}

/** Return the item of one request; only what has changed is written, so that its button keeps the focus. */
function liveRow(first, signal, report) {
  const cancel = async () => {
    try {
      await api(`requests/${encodeURIComponent(first.request_id)}/cancel`, { method: "POST", signal });
    } catch (error) {
      report(error);
    }
  };
  const phase = el("strong", {});
  const model = el("span", {});
  const bar = el("progress", { max: "1", "aria-label": `Progress of ${first.request_id}` });
  const facts = el("span", { class: "muted" });
  const button = el("button", { type: "button", onclick: cancel, "aria-label": `Cancel ${first.request_id}` }, "Cancel");
  const item = el("li", {}, el("p", {}, phase, " ", model), bar, el("p", {}, facts), button);
  const write = (element, text) => element.textContent !== text && (element.textContent = text);
  const update = (one, context) => {
    write(phase, describePhase(one));
    phase.className = TONES[one.phase] ?? "good";
    write(model, [one.model, one.client, one.program, one.surface].filter(Boolean).join(" · "));
    const share = prefillShare(one);
    bar.hidden = share === null;
    if (share !== null) bar.value = share;
    write(facts, describeFacts(one, context));
  };
  return { item, update };
}

function prefillShare({ prompt_tokens: all, processed_tokens: done, output_tokens: output }) {
  return all && done !== null && !output ? done / all : null;
}

function describePhase(one) {
  const share = prefillShare(one);
  const place = one.queue_position && `, place ${one.queue_position}`;
  return one.phase + (place || "") + (share === null ? "" : ` ${Math.round(100 * share)} %`);
}

function describeFacts(one, context) {
  const prompt = one.prompt_tokens;
  const of = prompt && context ? ` of ${count(context)} (${Math.round((100 * prompt) / context)} %)` : "";
  return [
    `${one.elapsed.toFixed(1)} s`,
    one.attempt > 1 && `attempt ${one.attempt} after ${one.faults.join(", ")}`,
    prompt && `context ${count(prompt)}${of}`,
    one.output_tokens > 0 && `${count(one.output_tokens)} token${one.output_tokens === 1 ? "" : "s"}`,
    one.tokens_per_second !== null && `${one.tokens_per_second.toFixed(1)} tokens/s`,
    one.tools > 0 && `${one.tools} tools`,
    one.request_id,
  ].filter(Boolean).join(" · ");
}

/** Return the section of interventions, newest first, which follows the events of the daemon. */
export function interventions(signal) {
  const none = el("p", { class: "muted" }, "None yet.");
  const list = el("ol", { class: "events", tabindex: "0", "aria-label": "Interventions, newest first" });
  list.hidden = true;
  const query = new URLSearchParams([...INTERVENTIONS.map((name) => ["event", name]), ["last", "200"]]);
  (async () => {
    for await (const { type, data } of follow(`events?${query}`, signal)) {
      if (type !== "message" || (UNCHANGED.includes(data.outcome) && !data.interventions.length)) continue;
      list.prepend(describeEvent(data));
      while (list.children.length > SHOWN) list.lastChild.remove();
      [none.hidden, list.hidden] = [true, false];
    }
  })();
  return el("section", { class: "card" }, el("h2", {}, "Interventions"), none, list);
}

function describeEvent(event) {
  const ended = ["answered", "failed"].includes(event.event);
  const name = event.outcome ? `${event.event}: ${event.outcome}` : event.event;
  const words = [
    [event.fault, event.tool, event.reason].filter(Boolean).join(" "),
    (event.faults ?? []).join(", "),
    (event.interventions ?? []).join("; "),
    event.error,
    event.event === "compacted" && `${count(event.tokens_before)} → ${count(event.tokens_after)} tokens`,
    [event.model, event.client, event.program].filter(Boolean).join(" · "),
  ];
  const id = event.request_id;
  return el(
    "li",
    {},
    el("time", { datetime: event.timestamp }, new Date(event.timestamp).toLocaleTimeString()),
    " ",
    el("strong", { class: event.level === "info" ? "warn" : "bad" }, name),
    ` ${words.filter(Boolean).join(" – ")} `,
    ended ? el("a", { href: `#/requests/${encodeURIComponent(id)}` }, id) : el("code", {}, id ?? ""),
  );
}
