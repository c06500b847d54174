// The admin API. The key is asked for when the daemon wants one, and is kept in this tab only.

const KEY = "forge-proxy-key";

export class ApiError extends Error {}

/** Return what the admin API answers. Throws `ApiError` with the daemon's message. */
export async function api(path, { method = "GET", body, signal } = {}) {
  const json = body === undefined ? {} : { body: JSON.stringify(body), headers: { "content-type": "application/json" } };
  const response = await open(path, { method, signal, ...json });
  return response.status === 204 ? null : response.json().catch(() => null);
}

/** Return a successful response of the admin API whose body is not read yet. Throws like `api`. */
export async function open(path, { headers, ...options }) {
  for (;;) {
    let response;
    try {
      response = await fetch(`/admin/v1/${path}`, { ...options, headers: { ...key(), ...headers }, cache: "no-store" });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new ApiError("The daemon does not answer.");
    }
    if (response.ok) return response;
    const found = await response.json().catch(() => null);
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
