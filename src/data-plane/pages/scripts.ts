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
    const query = new URLSearchParams({ session_token: String(data.sessionToken), embedder: to });
    location.replace("?" + query);
  });
  window.parent.postMessage({ type: "ready" }, to);
})()`);

/**
 * Within such a frame, where providers show nothing: their page opens in a window of its own, and what came of it is
 * heard over a WebSocket, since that window may lose sight of this one on its way.
 */
export const inWindow = script(`(() => {
  const { to, failed, done } = document.body.dataset;
  const form = document.querySelector("form");
  const status = document.querySelector("[role=status]");
  const say = (text, how = "bad") => { status.textContent = text; status.className = how; };
  document.querySelector("[data-close]")?.addEventListener("click", () => window.parent.postMessage({ type: "close" }, to));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const opened = window.open("", "_blank", "width=520,height=680");
    if (!opened) { say("The browser blocked the window. Allow it, and try again."); return; }
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
        say(failed + " " + heard.error_desc);
        window.parent.postMessage({ type: "error", payload: { errorType: heard.error_type, errorMessage: heard.error_desc } }, to);
      }
    };
    socket.onerror = () => say(failed);
    say("Go on in the window that has opened.", "quiet");
  });
})()`);
