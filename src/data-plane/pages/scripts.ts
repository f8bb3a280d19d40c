import { hash } from "node:crypto";

/** A script that a page brings along, and the hash by which its policy knows it. */
export interface PageScript {
  readonly text: string;
  readonly hash: string;
}

const script = (text: string): PageScript => ({ text, hash: hash("sha256", text, "base64") });

/** Tells the page that opened or frames this one what came of it: that one alone, by its origin. */
export const tell = script(`(() => {
  const { message, to } = document.body.dataset;
  const other = window.opener ?? (window.parent === window ? null : window.parent);
  if (message && to) other?.postMessage(JSON.parse(message), to);
  document.querySelector("[data-close]")?.addEventListener("click", () => {
    if (to) other?.postMessage({ type: "close" }, to);
    window.close();
  });
})()`);

/** Within the frame of the frontend SDK, before it has said whose session it is. */
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
 * Shows at a field what is wrong with it: as the browser finds it, before anything is sent, or as a `problem` event
 * says. Without scripts the browser shows it in its own way.
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
 * Within such a frame, where providers show nothing: their page opens in a window of its own, and what came of it is
 * heard over a WebSocket, since that window may lose sight of this one on its way.
 */
export const inWindow = script(`(() => {
  const { to, failed, done, blocked, opened: openedText, check } = document.body.dataset;
  const failures = JSON.parse(document.body.dataset.failures);
  const form = document.querySelector("form");
  const status = document.querySelector("[data-status]");
  const say = (text, how = "bad") => { status.textContent = text; status.className = how; };
  document.querySelector("[data-close]")?.addEventListener("click", () => window.parent.postMessage({ type: "close" }, to));
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
        form.hidden = true;
        say(done, "good");
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
