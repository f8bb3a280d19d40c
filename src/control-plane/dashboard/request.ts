import { Fault } from "../../base/fault.ts";
import type { NodeRequest } from "../server/calls.ts";
import { peerOf } from "../server/http1-connections.ts";

/** A request to a route of the dashboard. */
export interface BrowserRequest {
  readonly method: string;
  /** Without the query. */
  readonly path: string;
  readonly query: URLSearchParams;
  readonly headers: Headers;
  /** The host that the browser asked, with its port. */
  readonly host: string;
  readonly address: string;
  /** Reads the body as a JSON object. */
  json(): Promise<Readonly<Record<string, unknown>>>;
}

export interface PageResponse {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | readonly string[]>>;
  readonly bytes?: Uint8Array | string;
}

const maxBytes = 16 * 1_024;
const bodyMs = 10_000;

export function browserRequestOf(request: NodeRequest): BrowserRequest {
  const [path = "", query = ""] = splitOnce(request.url ?? "");
  const headers = new Headers();
  for (const [name, value] of Object.entries(request.headers)) {
    if (name.startsWith(":") || value === undefined) continue;
    for (const one of Array.isArray(value) ? value : [value]) headers.append(name, one);
  }
  const authority = request.headers[":authority"];
  return {
    method: request.method ?? "",
    path,
    query: new URLSearchParams(query),
    headers,
    host: typeof authority === "string" ? authority : (request.headers.host ?? ""),
    address: peerOf(request.socket),
    async json() {
      if (!/^application\/json(?:;|$)/i.test(headers.get("content-type") ?? "")) {
        throw new Fault("unsupported_media_type", "send Content-Type: application/json");
      }
      const text = await textOf(request);
      try {
        const value: unknown = JSON.parse(text);
        if (typeof value === "object" && value !== null && !Array.isArray(value))
          return value as Record<string, unknown>;
      } catch {
        // Told below, without the text: it may hold a key.
      }
      throw new Fault("invalid_json", "the body must be a JSON object");
    },
  };
}

function splitOnce(url: string): readonly string[] {
  const at = url.indexOf("?");
  return at === -1 ? [url] : [url.slice(0, at), url.slice(at + 1)];
}

function textOf(request: NodeRequest): Promise<string> {
  return new Promise((resolve, reject) => {
    const parts: Buffer[] = [];
    let size = 0;
    const late = setTimeout(
      () => reject(new Fault("request_timeout", "the request body did not arrive in time")),
      bodyMs,
    );
    request.on("data", (part: Buffer) => {
      size += part.length;
      if (size > maxBytes) reject(new Fault("payload_too_large", `the body must have at most ${maxBytes} bytes`));
      else parts.push(part);
    });
    request.once("end", () => resolve(Buffer.concat(parts).toString("utf8")));
    request.once("error", reject);
    request.once("close", () => {
      clearTimeout(late);
      reject(new Fault("malformed_request", "the request body is incomplete"));
    });
  });
}

export const jsonAnswer = (
  status: number,
  body: unknown,
  headers: Readonly<Record<string, string | readonly string[]>> = {},
): PageResponse => ({
  status,
  headers: { "content-type": "application/json; charset=utf-8", "cache-control": "no-store", ...headers },
  bytes: JSON.stringify(body),
});
