// Follows a stream of server-sent events of the admin API. EventSource cannot send a key, so `fetch` reads it.

import { open } from "./api.js";

const PAUSE = 2000; // milliseconds before a lost stream is opened again

/**
 * Yield the events of a stream as {type, data}, and reconnect after the last one, until the view is left.
 *
 * A hidden page follows nothing: browsers allow six connections to a server, and each stream needs one. An error is
 * yielded as {type: "error", error}.
 */
export async function* follow(path, signal) {
  let last = "";
  while (!signal.aborted) {
    await shown(signal);
    const reading = new AbortController();
    const stop = () => (signal.aborted || document.hidden) && reading.abort();
    signal.addEventListener("abort", stop);
    document.addEventListener("visibilitychange", stop);
    try {
      for await (const event of read(path, last, reading.signal)) {
        last = event.id || last;
        yield event;
      }
    } catch (error) {
      if (!reading.signal.aborted) yield { type: "error", error };
    } finally {
      signal.removeEventListener("abort", stop);
      document.removeEventListener("visibilitychange", stop);
      reading.abort();
    }
    if (!document.hidden) await new Promise((resolve) => setTimeout(resolve, PAUSE));
  }
}

/** Wait until the page is visible or the view is left. */
function shown(signal) {
  return new Promise((resolve) => {
    const check = () => {
      if (document.hidden && !signal.aborted) return;
      signal.removeEventListener("abort", check);
      document.removeEventListener("visibilitychange", check);
      resolve();
    };
    signal.addEventListener("abort", check);
    document.addEventListener("visibilitychange", check);
    check();
  });
}

async function* read(path, last, signal) {
  const response = await open(path, { signal, headers: last ? { "last-event-id": last } : {} });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const blocks = (text + value).split("\n\n");
    text = blocks.pop();
    for (const block of blocks) {
      const event = { type: "message", id: "", data: "" };
      for (const line of block.split("\n")) {
        const [, name, content] = /^(\w+): ?(.*)$/.exec(line) ?? [];
        if (name === "event") event.type = content;
        else if (name === "id") event.id = content;
        else if (name === "data") event.data += content;
      }
      if (event.data) yield { ...event, data: JSON.parse(event.data) };
    }
  }
}
