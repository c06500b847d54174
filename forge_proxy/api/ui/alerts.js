// The banner above all views: models that got worse.

import { api } from "./api.js";
import { el } from "./dom.js";

const PAUSE = 5 * 60 * 1000;

/** Show the banner as long as there are alerts. A daemon without a store has none. */
export async function watchAlerts(banner) {
  for (;;) {
    const found = await api("ledger/alerts").catch(() => ({ data: [] }));
    banner.hidden = !found.data.length;
    banner.replaceChildren(
      el("strong", {}, "A model got worse. "),
      ...found.data.map((alert) => el("span", {}, `${alert.summary} `)),
      el("a", { href: "#/ledger" }, "Ledger"),
    );
    await new Promise((resolve) => setTimeout(resolve, PAUSE));
  }
}
