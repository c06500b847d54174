// The text of a stored request: each attempt, what the client received, replay and export.

import { api, download } from "./api.js";
import { markDifference } from "./differences.js";
import { card, count, duration, el, facts } from "./dom.js";

/** Return the cards with the text of a request. */
export function contents(one, signal) {
  if (!one.content) {
    const hint = "Its text is not stored. Set store.content: on to keep the text of later requests, and to replay them.";
    return [card("Text", el("p", { class: "hint" }, hint))];
  }
  return [card("Text", isCut(one.content), request(one.content), attempts(one.content)), replayCard(one, signal)];
}

function isCut(content) {
  return content.is_cut && el("p", { class: "warn" }, "Long texts were cut because of the size of the request.");
}

function request({ request: { messages = [], tools = [], ...options } }) {
  return el(
    "details",
    {},
    el("summary", {}, `Request: ${plural(messages.length, "message")}, ${plural(tools?.length ?? 0, "tool")}`),
    messages.map((one) => message("h3", one)),
    el("h3", {}, "Tools and options"),
    pre(JSON.stringify({ ...options, tools }, null, 2)),
  );
}

function message(heading, one) {
  const content = typeof one.content === "string" ? one.content : JSON.stringify(one.content, null, 2);
  const calls = (one.tool_calls ?? []).map((call) => `${call.function?.name}(${call.function?.arguments})`);
  return [el(heading, {}, one.role), pre([one.content ? content : "", ...calls].filter(Boolean).join("\n"))];
}

/** Show each attempt next to what followed from it: the next attempt, or what the client received. */
function attempts({ attempts: all, received }) {
  return all.map((attempt, index) => {
    const isLast = index === all.length - 1;
    const following = isLast ? received : all[index + 1].replies;
    const title = `Attempt ${attempt.number}: ${attempt.fault ?? attempt.verdict}`;
    return el(
      "section",
      { "aria-label": title },
      el("h3", { class: attempt.fault ? "warn" : null }, title),
      pair("h4", "The model wrote", attempt.replies, isLast ? "The client received" : "The next attempt", following),
      attempt.correction.length > 0 && correction(attempt.correction),
    );
  });
}

function correction(messages) {
  return el(
    "details",
    {},
    el("summary", {}, "Correction that was sent"),
    messages.slice(-1).map((one) => message("h4", one)),
    messages.length > 1 && el("p", { class: "hint" }, "The failed response was sent before it."),
  );
}

/** Show two responses side by side, with their difference marked. */
function pair(heading, beforeTitle, before, afterTitle, after) {
  const [left, right] = [before.map(write).join("\n\n"), after.map(write).join("\n\n")];
  const [marked, fresh] = markDifference(left, right);
  return el(
    "div",
    { class: "pair" },
    el("div", {}, el(heading, {}, beforeTitle), pre(marked.length ? marked : "(nothing)")),
    el("div", {}, el(heading, {}, afterTitle), pre(fresh.length ? fresh : "(nothing)")),
  );
}

function write(reply) {
  const calls = reply.calls.map((call) => `${call.name}(${call.arguments})`);
  return [reply.reasoning && `[reasoning] ${reply.reasoning}`, reply.text, ...calls].filter(Boolean).join("\n");
}

function replayCard(one, signal) {
  const result = el("div", { "aria-live": "polite" });
  const send = async (event) => {
    event.preventDefault();
    const button = event.target.querySelector("button");
    button.disabled = true;
    result.replaceChildren(el("p", {}, "The model answers…"));
    try {
      const body = changes(new FormData(event.target));
      const sides = await api(`requests/${one.number}/replay`, { method: "POST", body, signal });
      result.replaceChildren(...showSides(sides));
    } catch (error) {
      if (!signal.aborted) result.replaceChildren(el("p", { class: "error" }, error.message));
    } finally {
      button.disabled = false;
    }
  };
  const failed = el("p", { "aria-live": "polite", class: "bad" });
  const exported = () => download(`requests/${one.number}/export`, `request-${one.number}.txt`).then(
    () => failed.replaceChildren(),
    (error) => failed.replaceChildren(error.message),
  );
  return card(
    "Replay and export",
    el(
      "form",
      { class: "filters", onsubmit: send, "aria-label": "Replay" },
      choice("Guardrails", "guardrails", { off: "off", "": "as they are now" }),
      field("Model", "model", { placeholder: one.served ?? one.model ?? "" }),
      field("Temperature", "temperature", { type: "number", min: 0, max: 2, step: 0.1 }),
      el("button", {}, "Replay"),
      el("button", { type: "button", onclick: exported }, "Export as a test case"),
    ),
    failed,
    result,
  );
}

function changes(form) {
  const [guardrails, model, temperature] = ["guardrails", "model", "temperature"].map((name) => form.get(name));
  return {
    ...(guardrails && { guardrails }),
    ...(model && { model }),
    ...(temperature && { sampling: { temperature: Number(temperature) } }),
  };
}

function showSides({ original, replay }) {
  return [
    pair("h3", `Original: ${original.result}`, original.received, `Replay: ${replay.result}`, replay.received),
    facts([
      ["replay", el("a", { href: `#/requests/${replay.request_id}` }, replay.request_id)],
      ["attempts", replay.attempts.map((attempt) => attempt.fault ?? "delivered").join(", ")],
      ["time", `${duration(original.seconds)} before, ${duration(replay.seconds)} now`],
      ["tokens", `${count(total(original))} before, ${count(total(replay))} now`],
      ["error", replay.error],
    ]),
  ];
}

const total = ({ tokens }) => (tokens.prompt ?? 0) + (tokens.completion ?? 0);
const plural = (number, name) => `${count(number)} ${name}${number === 1 ? "" : "s"}`;
const pre = (children) => el("pre", { tabindex: "0", class: "text" }, children);

function field(label, name, attributes) {
  return el("label", { for: `replay-${name}` }, label, el("input", { id: `replay-${name}`, name, ...attributes }));
}

function choice(label, name, options) {
  const listed = Object.entries(options).map(([value, text]) => el("option", { value }, text));
  return el("label", { for: `replay-${name}` }, label, el("select", { id: `replay-${name}`, name }, listed));
}
