import { text as readText } from "node:stream/consumers";
import type { JsonObject } from "@bufbuild/protobuf";
import { dataAddressOf } from "../../data/data-address.ts";
import { sendToData } from "../../data/data-request.ts";
import { CommandError } from "../../terminal/command-error.ts";
import type { Terminal } from "../../terminal/terminal.ts";
import { UsageMistake } from "../../terminal/usage-mistake.ts";
import { reachable } from "./reachable.ts";
import { limitedConnection, mostMs, type RunAccess, runLabel } from "./run-access.ts";

/** A forward proxy, as a program uses it. */
export interface ForwardProxyView {
  /** `http://host:port`; empty: it is off. */
  readonly address: string;
  /** The certificates that programs must trust. */
  readonly pem: string;
}

interface EdgeListener {
  /** `http(s)://host:port` or `unix:/path` of the data listener. */
  readonly edge: string;
  readonly terminal: Terminal;
  readonly key: string | undefined;
}

const timeoutMs = 30_000;

/** An edge has no control plane: its data listener tells of its forward proxy. */
export async function proxyOfEdge(at: EdgeListener): Promise<ForwardProxyView> {
  const { data } = (await ask(at, "GET", "/forward-proxy")) as {
    readonly data: { readonly address: string; readonly certificates: readonly { readonly pem: string }[] };
  };
  return { address: reachable(data.address, at.edge), pem: data.certificates.map(({ pem }) => pem).join("") };
}

/** Returns the access of a program: a session for these connections, or without any the key itself. */
export async function accessAtEdge(at: EdgeListener, connections: readonly string[]): Promise<RunAccess> {
  const key = requireKey(at);
  if (connections.length === 0) return { key, untilMs: undefined, end: async () => {} };
  const named = connections.map(limitedConnection).map(({ integration, id }) => ({ integration, id }));
  const lifetime = { expires_in: mostMs / 1_000, shorten: true };
  const body = { limits: { connections: named }, allow_several: true, ...lifetime, label: runLabel };
  const { data } = (await ask(at, "POST", "/access-sessions", body)) as {
    readonly data: { readonly id: string; readonly token: string; readonly expires_at: string };
  };
  return {
    key: data.token,
    untilMs: Date.parse(data.expires_at),
    end: async () => void (await ask(at, "DELETE", `/access-sessions/${data.id}`)),
  };
}

function requireKey({ key }: EdgeListener): string {
  if (key === undefined) throw new UsageMistake("a key is needed: set LATCHKEY_KEY, or pass --key-file");
  return key;
}

async function ask(at: EdgeListener, method: string, path: string, body?: JsonObject): Promise<unknown> {
  const address = dataAddressOf(at.edge, at.terminal);
  const headers = { authorization: `Bearer ${requireKey(at)}`, "content-type": "application/json" };
  const sent = body === undefined ? {} : { body: Buffer.from(JSON.stringify(body)) };
  const response = await sendToData(address, { method, path, headers, timeoutMs, ...sent }).catch((error: Error) => {
    throw new CommandError("unavailable", `no edge answers at ${address.text}: ${error.message}`, ["check --edge"]);
  });
  const text = await readText(response);
  const { statusCode = 0 } = response;
  if (statusCode >= 200 && statusCode < 300) return JSON.parse(text);
  const { code = "unavailable", message = `the edge at ${address.text} answered ${statusCode}` } = errorIn(text);
  throw new CommandError(code, message);
}

function errorIn(text: string): { readonly code?: string; readonly message?: string } {
  try {
    const { error } = JSON.parse(text) as { readonly error?: { readonly code?: string; readonly message?: string } };
    return error ?? {};
  } catch {
    // Not of Latchkey.
    return {};
  }
}
