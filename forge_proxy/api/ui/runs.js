// The runs, newest first; each links to its events.

import { api } from "./api.js";
import { el, table, time } from "./dom.js";

export async function runs({ main, signal }) {
  const page = await api("runs?limit=100", { signal });
  if (!page.data.length) {
    main.replaceChildren(el("p", {}, "No run was submitted yet."));
    return;
  }
  main.replaceChildren(
    table(
      "Runs, newest first",
      [
        ["created", (run) => time(run.created_at)],
        ["id", (run) => el("a", { href: `#/runs/${encodeURIComponent(run.id)}` }, run.id)],
        ["workflow", (run) => run.workflow],
        ["model", (run) => run.model ?? ""],
        ["status", (run) => run.status],
        ["updated", (run) => time(run.updated_at)],
      ],
      page.data,
    ),
  );
}
