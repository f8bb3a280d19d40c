import type { ServerResponse } from "node:http";
import { setTimeout as pause } from "node:timers/promises";
import type { Misstep } from "../behaviour.ts";
import { apiError, json, oauthError, type SandboxAnswer } from "../call.ts";
import { type KnownEndpoint, speaksOAuth } from "../endpoints.ts";

/** The answer that replaces the route's; undefined if the route answers, even if its answer is then lost. */
export function answerInstead(misstep: Misstep, endpoint: KnownEndpoint): SandboxAnswer | undefined {
  switch (misstep.kind) {
    case "error": {
      const { status, error, description, headers } = misstep;
      if (speaksOAuth(endpoint)) return oauthError(status, error, description, headers);
      return apiError(status, error, description || error, headers);
    }
    case "raw":
      return {
        status: misstep.status,
        headers: { "content-type": misstep.contentType, ...misstep.headers },
        body: misstep.text,
      };
    case "redirect":
      return { status: misstep.status, headers: { location: misstep.location } };
    case "large":
      return json({ padding: "x".repeat(misstep.bytes - '{"padding":""}'.length) });
    case "invalid-utf8": {
      const body = Buffer.from('{"access_token":"__","token_type":"Bearer"}');
      body.set([0xff, 0xfe], body.indexOf("__"));
      return { status: 200, headers: { "content-type": "application/json" }, body };
    }
    case "endless":
      return { status: 200, headers: { "content-type": "application/json" }, pieces: endless };
    case "trickle":
      return { status: 200, headers: { "content-type": "application/json" }, pieces: trickle };
    case "stall":
      return { status: 200, headers: { "content-type": "application/json", "content-length": "100" }, pieces: stall };
    default:
      return undefined;
  }
}

async function* endless(): AsyncGenerator<string> {
  yield '{"access_token":"';
  for (;;) yield "x".repeat(65_536);
}

async function* trickle(signal: AbortSignal): AsyncGenerator<string> {
  for (;;) {
    yield " ";
    await pause(1_000, undefined, { signal });
  }
}

async function* stall(signal: AbortSignal): AsyncGenerator<string> {
  yield '{"access_t';
  await untilAborted(signal);
}

/** Resolves when the client disconnects or the sandbox closes. */
export function untilAborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener("abort", () => resolve(), { once: true });
  });
}

/** Sends a TCP reset, which a reader cannot mistake for the end of the body. */
export function reset({ socket }: ServerResponse): void {
  socket?.resetAndDestroy();
}

/** Sends half of a body under its full content-length, then a reset. */
export function cut(response: ServerResponse, { status, headers, body = "" }: SandboxAnswer): void {
  const whole = Buffer.from(body);
  response.writeHead(status, { ...headers, "content-length": whole.length });
  response.write(whole.subarray(0, Math.floor(whole.length / 2)), () => reset(response));
}
