import { hash } from "node:crypto";

/** A script of a page, and the hash by which the page's policy allows it. */
export interface PageScript {
  readonly text: string;
  readonly hash: string;
}

const script = (text: string): PageScript => ({ text, hash: hash("sha256", text, "base64") });

/** Sends the result to the page that opened or frames this one, and only to its origin. A window then closes. */
export const tell = script(`(() => {
  const { message, to } = document.body.dataset;
  const other = window.opener ?? (window.parent === window ? null : window.parent);
  if (!message || !to) return;
  other?.postMessage(JSON.parse(message), to);
  if (window.opener && JSON.parse(message).type === "connect") setTimeout(() => window.close(), 1500);
})()`);

/** Closes the window or the frame: by a button, and in a frame by Escape. */
export const closing = script(`(() => {
  const { to } = document.body.dataset;
  const isFramed = window.parent !== window;
  const other = window.opener ?? (isFramed ? window.parent : null);
  const close = () => {
    if (to) other?.postMessage({ type: "close" }, to);
    window.close();
  };
  for (const button of document.querySelectorAll("[data-close]")) button.addEventListener("click", close);
  if (!isFramed) return;
  addEventListener("keydown", (event) => { if (event.key === "Escape" && !event.defaultPrevented) close(); });
  document.querySelector("[role=dialog]")?.focus({ preventScroll: true });
})()`);

/** Filters the choices by their names while a person types. Without scripts, all are shown and nothing filters. */
export const filterChoices = script(`(() => {
  const box = document.querySelector("[data-search]");
  const none = document.querySelector("[data-none]");
  const items = [...document.querySelectorAll(".choices li")];
  const plain = (text) => text.normalize("NFKD").replace(/\\p{M}/gu, "").toLowerCase();
  const names = items.map((item) => plain(item.textContent));
  const input = box.querySelector("input");
  const filter = () => {
    const words = plain(input.value).split(/\\s+/);
    items.forEach((item, i) => { item.hidden = !words.every((word) => names[i].includes(word)); });
    none.hidden = items.some((item) => !item.hidden);
  };
  box.hidden = false;
  input.addEventListener("input", filter);
  input.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && input.value !== "") { event.preventDefault(); input.value = ""; filter(); }
    if (event.key !== "Enter") return;
    const shown = items.filter((item) => !item.hidden);
    if (shown.length === 1) shown[0].querySelector("a").click();
  });
  filter();
})()`);

/** Shows and hides the text of a secret. Without scripts, there is no button for it. */
export const revealSecrets = script(`(() => {
  for (const button of document.querySelectorAll("[data-show]")) {
    const input = document.getElementById(button.getAttribute("aria-controls"));
    const toggle = (isShown) => {
      input.type = isShown ? "text" : "password";
      button.textContent = isShown ? button.dataset.hide : button.dataset.show;
    };
    button.hidden = false;
    button.addEventListener("click", () => { toggle(input.type === "password"); input.focus(); });
    // Password managers keep what a field shows when it is sent.
    button.form?.addEventListener("submit", () => toggle(false));
  }
})()`);

/** Shows that a form was sent, and sends it once. */
export const busySubmit = script(`(() => {
  const form = document.querySelector("form");
  const button = form.querySelector("button:not([type=button])");
  form.addEventListener("submit", (event) => {
    if (event.defaultPrevented) return;
    if (button.getAttribute("aria-busy") === "true") { event.preventDefault(); return; }
    button.setAttribute("aria-busy", "true");
  });
  addEventListener("pageshow", () => button.removeAttribute("aria-busy"));
})()`);

/** Waits, in the frame of the frontend SDK, for the session. */
export const awaitSession = script(`(() => {
  const { to } = document.body.dataset;
  addEventListener("message", ({ origin, source, data }) => {
    if (source !== window.parent || origin !== to || data?.type !== "session_token") return;
    const query = new URLSearchParams(location.search);
    for (const name of [...query.keys()]) if (name !== "lang" && name !== "theme") query.delete(name);
    query.set("session_token", String(data.sessionToken));
    query.set("embedder", to);
    location.replace("?" + query);
  });
  window.parent.postMessage({ type: "ready" }, to);
})()`);

/**
 * Shows the problem of a field next to the field: one that the browser finds before sending, or one of a `problem`
 * event. Without scripts, the browser shows problems in its own way.
 */
export const fieldProblems = script(`(() => {
  const form = document.querySelector("form");
  const say = (input, text) => {
    if (text) input.setAttribute("aria-invalid", "true"); else input.removeAttribute("aria-invalid");
    document.getElementById(input.id + "-problem").textContent = text;
  };
  form.addEventListener("invalid", (event) => {
    event.preventDefault();
    const input = event.target;
    say(input, input.validity.valueMissing ? input.dataset.missing : input.dataset.wrong);
    form.querySelector("input:invalid").focus();
  }, true);
  form.addEventListener("problem", ({ target }) => say(target, target.value ? target.dataset.wrong : target.dataset.missing));
  form.addEventListener("input", ({ target }) => { if (target.id) say(target, ""); });
  form.querySelector("[aria-invalid=true]")?.focus();
})()`);

/**
 * Opens the provider's page in a window, from the SDK's frame, since providers refuse to be framed. The result comes
 * over a WebSocket, since that window may lose its link to this one on its way.
 */
export const inWindow = script(`(() => {
  const { to, failed, done, blocked, opened: openedText, check } = document.body.dataset;
  const failures = JSON.parse(document.body.dataset.failures);
  const form = document.querySelector("form");
  const status = document.querySelector("[data-status]");
  const say = (text, how = "bad") => { status.textContent = text; status.className = "notice " + how; };
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const opened = window.open("", "_blank", "width=520,height=680");
    if (!opened) { say(blocked); return; }
    const query = new URLSearchParams(new FormData(form));
    const socket = new WebSocket(location.origin.replace(/^http/, "ws") + "/");
    socket.onmessage = ({ data }) => {
      const heard = JSON.parse(data);
      if (heard.message_type === "connection_ack") {
        query.set("ws_client_id", heard.ws_client_id);
        opened.location = form.action + "?" + query;
        return;
      }
      socket.close();
      opened.close();
      if (heard.message_type === "success") {
        const end = document.querySelector("[data-end]");
        const heading = document.querySelector("h1");
        document.querySelector("[data-begin]").hidden = true;
        document.querySelector(".marks").replaceWith(end.querySelector(".marks"));
        heading.textContent = done;
        end.hidden = false;
        heading.tabIndex = -1;
        heading.focus();
        const payload = { providerConfigKey: heard.provider_config_key, connectionId: heard.connection_id, isPending: false };
        window.parent.postMessage({ type: "connect", payload }, to);
      } else {
        const bad = (heard.fields ?? []).map((name) => form.elements["params[" + name + "]"]).filter(Boolean);
        for (const input of bad) input.dispatchEvent(new Event("problem", { bubbles: true }));
        bad[0]?.focus();
        say(bad.length > 0 ? check : failures[heard.error_type] ?? failed);
        window.parent.postMessage({ type: "error", payload: { errorType: heard.error_type, errorMessage: heard.error_desc } }, to);
      }
    };
    socket.onerror = () => say(failed);
    say(openedText, "quiet");
  });
})()`);
