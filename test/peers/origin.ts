import { once } from "node:events";
import http, { type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, onTestFinished } from "vitest";
import { type ProxiedSidecar, startProxied } from "../support/peers/provider.ts";
import { secretKey } from "../support/sidecar/harness.ts";

/** An API that answers as programs expect, and records its requests. */

export interface Asked {
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingMessage["headers"];
  /** Name, value, name, value. */
  readonly rawHeaders: readonly string[];
  readonly body: string;
}

export interface Answered {
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
  /** A string is sent unchanged, anything else as JSON. */
  readonly body?: unknown;
}

/** The token by which the provider knows the connection. */
export const token = "the-provider-token-of-ada";

export interface Origin extends ProxiedSidecar {
  readonly server: http.Server;
  readonly asked: readonly Asked[];
  /** The address of the connection `ada` alone, without a slash at the end. */
  readonly alias: string;
}

/**
 * The API, a sidecar before it, and in that the connection `ada` of the integration `here`, with an alias. Its credential
 * is a bearer token, or stands alone in the header of `placement`.
 */
export async function startOrigin(
  answer: (asked: Asked) => Answered,
  basePath = "",
  placement: { readonly header?: string } = {},
): Promise<Origin> {
  const asked: Asked[] = [];
  const server = http.createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk);
    const { method = "", url = "", headers, rawHeaders } = request;
    const one = { method, url, headers, rawHeaders, body: Buffer.concat(chunks).toString() };
    asked.push(one);
    const { status = 200, headers: own = {}, body = {} } = answer(one);
    response.writeHead(status, { "content-type": "application/json; charset=utf-8", ...own });
    response.end(typeof body === "string" ? body : JSON.stringify(body));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    server.close();
    server.closeAllConnections();
  });
  const { port } = server.address() as AddressInfo;
  const running = await startProxied(port, {
    provider: {
      auth: { case: "apiKey", value: placement },
      proxy: { baseUrl: `https://127.0.0.1:${port}${basePath}` },
    },
    credentials: { type: "API_KEY", apiKey: token },
    files: {
      "/config":
        "aliases: [{ name: ada, environment: dev, integration: here, connection: ada, listen: '127.0.0.1:0' }]",
    },
    env: { LATCHKEY_CONFIG: "/config" },
  });
  return { ...running, server, asked, alias: running.sidecar.aliases["ada"] ?? "" };
}

/** Expects the credentials exactly once, as bearer token or alone in another header, and nothing of latchkey's own. */
export function expectClean(asked: Pick<Asked, "rawHeaders"> & Partial<Asked>, header = "authorization"): void {
  const { rawHeaders } = asked;
  const valuesOf = (name: string) =>
    rawHeaders.filter((_, i) => i % 2 === 1 && rawHeaders[i - 1]?.toLowerCase() === name);
  expect(valuesOf("authorization")).toEqual(header === "authorization" ? [`Bearer ${token}`] : []);
  if (header !== "authorization") expect(valuesOf(header)).toEqual([token]);
  expect(valuesOf("via")).toEqual(["1.1 latchkey"]);
  expect(valuesOf("host")).toHaveLength(1);
  const ours =
    /^(?:provider-config-key|connection-id|proxy-.*|latchkey-.*|retries|retry-on|decompress|base-url-override|nango-.*)$/;
  expect(rawHeaders.filter((name, i) => i % 2 === 0 && ours.test(name.toLowerCase()))).toEqual([]);
  expect(JSON.stringify(asked)).not.toContain(secretKey);
}

export function expectAllClean({ asked }: Pick<Origin, "asked">, header?: string): void {
  expect(asked.length).toBeGreaterThan(0);
  for (const one of asked) expectClean(one, header);
}

export const connectionHeaders = { "provider-config-key": "here", "connection-id": "ada" } as const;
