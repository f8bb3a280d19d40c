import http from "node:http";
import https from "node:https";
import type { DataAddress } from "./data-address.ts";

export interface DataRequest {
  readonly method: string;
  /** Path and query, from the root of the listener. */
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>> | readonly string[];
  readonly body?: Uint8Array | undefined;
  readonly signal?: AbortSignal;
  /** Time limit for the head of the response; none if undefined. */
  readonly timeoutMs?: number | undefined;
}

/** Sends a request to the data listener. Resolves with the response as soon as its head has arrived. */
export function sendToData(
  { baseUrl, socketPath }: DataAddress,
  { method, path, headers = {}, body, signal, timeoutMs }: DataRequest,
): Promise<http.IncomingMessage> {
  const url = new URL(baseUrl);
  const { request: send } = url.protocol === "https:" ? https : http;
  return new Promise((resolve, reject) => {
    const request = send(
      {
        protocol: url.protocol,
        hostname: url.hostname.replace(/^\[|\]$/g, ""),
        port: url.port,
        ...(socketPath !== undefined && { socketPath }),
        path: `${url.pathname.replace(/\/$/, "")}${path}`,
        method,
        // Node adds no Host header to a list of headers.
        headers: Array.isArray(headers) ? ["host", url.host, ...headers] : (headers as http.OutgoingHttpHeaders),
        agent: false,
        ...(signal && { signal }),
      },
      (response) => {
        clearTimeout(limit);
        resolve(response);
      },
    );
    const limit =
      timeoutMs === undefined
        ? undefined
        : setTimeout(() => request.destroy(new Error(`no response within ${timeoutMs / 1_000} s`)), timeoutMs);
    request.on("error", (error) => {
      clearTimeout(limit);
      reject(error);
    });
    request.end(body);
  });
}
