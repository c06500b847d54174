// The admin API. The key is asked for when the daemon wants one, and is kept in this tab only.

const KEY = "forge-proxy-key";

export class ApiError extends Error {}

/** Return the response to a request to the admin API. Throws `ApiError` with the daemon's message. */
export async function api(path, { method = "GET", body, signal } = {}) {
  for (;;) {
    const headers = { ...key(), ...(body === undefined ? {} : { "content-type": "application/json" }) };
    const payload = body === undefined ? undefined : JSON.stringify(body);
    let response;
    try {
      response = await fetch(`/admin/v1/${path}`, { method, headers, body: payload, signal, cache: "no-store" });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new ApiError("The daemon does not answer.");
    }
    const found = response.status === 204 ? null : await response.json().catch(() => null);
    if (response.ok) return found;
    const message = found?.error?.message ?? `The daemon answered with status ${response.status}.`;
    if (response.status !== 401) throw new ApiError(message);
    await askForKey(message);
  }
}

/** Save the file at a path of the admin API. Throws `ApiError`. */
export async function download(path, name) {
  const response = await fetch(`/admin/v1/${path}`, { headers: key(), cache: "no-store" });
  if (!response.ok) {
    const found = await response.json().catch(() => null);
    throw new ApiError(found?.error?.message ?? `The daemon answered with status ${response.status}.`);
  }
  const link = document.createElement("a");
  link.href = URL.createObjectURL(await response.blob());
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

function key() {
  const stored = sessionStorage.getItem(KEY);
  return stored ? { authorization: `Bearer ${stored}` } : {};
}

let asking = null;

/** Ask for the key once, however many requests wait for it. */
function askForKey(reason) {
  asking ??= new Promise((resolve) => {
    const dialog = document.getElementById("key-dialog");
    const field = document.getElementById("key");
    document.getElementById("key-reason").textContent = reason;
    const finish = () => {
      if (!field.value) return dialog.showModal(); // closed with Escape: nothing can be shown without a key
      sessionStorage.setItem(KEY, field.value.trim());
      field.value = "";
      asking = null;
      dialog.removeEventListener("close", finish);
      resolve();
    };
    dialog.addEventListener("close", finish);
    dialog.showModal();
  });
  return asking;
}
