// Chooses the view by the address, refreshes it, and reports the connection.

import { watchAlerts } from "./alerts.js";
import { ApiError } from "./api.js";
import { el } from "./dom.js";
import { ledger } from "./ledger.js";
import { now } from "./now.js";
import { request, requests } from "./requests.js";
import { run } from "./run.js";
import { runs } from "./runs.js";

const VIEWS = [
  [/^#\/requests\/([^/?]+)$/, request],
  [/^#\/requests(?:\?(.*))?$/, requests],
  [/^#\/ledger(?:\?(.*))?$/, ledger],
  [/^#\/runs\/([^/?]+)$/, run],
  [/^#\/runs$/, runs],
  [/^/, now],
];

const main = document.getElementById("view");
const connection = document.getElementById("connection");
let current = new AbortController();

/** Show the view of the address, until another one is chosen. */
async function show() {
  current.abort();
  const mine = (current = new AbortController());
  const [pattern, view] = VIEWS.find(([pattern]) => pattern.test(location.hash));
  for (const link of document.querySelectorAll("nav a")) {
    const isCurrent = (location.hash || "#/now").startsWith(link.getAttribute("href"));
    isCurrent ? link.setAttribute("aria-current", "page") : link.removeAttribute("aria-current");
  }
  const argument = decodeURIComponent(pattern.exec(location.hash)[1] ?? "");
  const screen = { main, signal: mine.signal, argument, report };
  try {
    await view(screen);
    report();
  } catch (error) {
    if (mine.signal.aborted) return;
    report(error);
    main.replaceChildren(el("p", { class: "error" }, describe(error)));
  }
}

/** Show whether the daemon answers. Returns whether it does. */
function report(error) {
  const text = error ? describe(error) : "Connected";
  if (connection.textContent !== text) connection.textContent = text;
  connection.className = error ? "bad" : "";
}

function describe(error) {
  return error instanceof ApiError ? error.message : `This page failed: ${error.message}`;
}

/** Show the version of the daemon, which needs no key. */
async function showVersion() {
  const home = await fetch("/", { headers: { accept: "application/json" } });
  document.getElementById("version").textContent = (await home.json()).version;
}

addEventListener("hashchange", () => {
  show();
  main.focus();
});
showVersion().catch(report);
watchAlerts(document.getElementById("alerts"));
show();
