import http2, { type ClientHttp2Session, type ClientHttp2Stream, type OutgoingHttpHeaders } from "node:http2";
import type { Client } from "@connectrpc/connect";
import { ConnectError } from "@connectrpc/connect";
import type { TrafficService } from "../../../src/gen/latchkey/v1/traffic_pb.ts";
import { basePath, type CallerKind, type FuzzedRequest, type Place } from "./fuzzed-request.ts";
import { idField } from "./noting-provider.ts";
import { RawClient } from "./raw-client.ts";

/** A way by which a request comes to a provider. */
export interface Face {
  readonly name: string;
  /** Returns whether the way has a form for the request. */
  takes(request: FuzzedRequest): boolean;
  /**
   * Resolves with `sent`, with the code of Latchkey's refusal, with `closed`, or with `unsendable` if the client itself
   * refuses. Not called twice at once.
   */
  send(id: string, request: FuzzedRequest): Promise<string>;
}

/** What the ways lead to. */
export interface FaceWorld {
  /** Address of the data listener. */
  readonly data: string;
  /** Address of the data listener of an edge. */
  readonly edge: string;
  /** Address of the forward proxy. */
  readonly forward: string;
  /** Addresses of alias listeners. */
  readonly alias: Readonly<Record<"here" | "based", string>>;
  readonly secrets: Readonly<Record<CallerKind, string>>;
  /** Values of the Host field of the provider's hosts. */
  readonly hosts: Readonly<Record<Place, string>>;
  /** Returns the port that leads into a tunnel. */
  readonly tunnel: (place: Place, caller: CallerKind, protocol: "http/1.1" | "h2") => string;
  readonly traffic: Readonly<Record<CallerKind, Client<typeof TrafficService>>>;
}

export const unsendable = "unsendable";

type Fields = readonly (readonly [name: string, value: string])[];

/** The head of a request on one of the ways. */
interface FaceHead {
  readonly address: string;
  readonly host: string;
  readonly target: string;
  readonly fields: Fields;
}

type HeadOf = (request: FuzzedRequest) => FaceHead;

export const integrationOf = (place: Place): "here" | "based" => (place === "based" ? "based" : "here");

/** The path at the provider, with that of the base URL. */
export const wholeTarget = ({ place, target }: FuzzedRequest): string =>
  place === "based" ? basePath + target : target;

/** Opens every way once. A worker has ways of its own. */
export function openFaces(world: FaceWorld): { readonly faces: readonly Face[]; close(): void } {
  const { data, edge, forward, alias, secrets, hosts, tunnel } = world;
  const closing: (() => void)[] = [];

  const keyOf = ({ caller }: FuzzedRequest): [string, string] => ["authorization", `Bearer ${secrets[caller]}`];
  const other = ({ place }: FuzzedRequest): Fields =>
    place === "second" ? [["base-url-override", `https://${hosts.second}`]] : [];
  const named = (request: FuzzedRequest): Fields => [
    keyOf(request),
    ["provider-config-key", integrationOf(request.place)],
    ["connection-id", "ada"],
  ];
  const proxied =
    (address: string, more: Fields = []): HeadOf =>
    (request) => ({
      ...{ address, host: "localhost", target: `/proxy${request.target}` },
      fields: [...named(request), ...other(request), ...more],
    });
  const aliased: HeadOf = (request) => ({
    ...{ address: alias[integrationOf(request.place)], host: "localhost", target: request.target },
    fields: [keyOf(request), ...other(request)],
  });
  const absolute =
    (address: string, fieldsOf: (request: FuzzedRequest) => Fields): HeadOf =>
    (request) => ({
      ...{ address, host: hosts[request.place], fields: fieldsOf(request) },
      target: `http://${hosts[request.place]}${wholeTarget(request)}`,
    });
  const tunneled =
    (protocol: "http/1.1" | "h2", more: Fields = []): HeadOf =>
    (request) => ({
      ...{ address: tunnel(request.place, request.caller, protocol), host: hosts[request.place] },
      ...{ target: wholeTarget(request), fields: more },
    });

  function overHttp1(name: string, headOf: HeadOf): Face {
    const clients = new Map<string, RawClient>();
    closing.push(() => {
      for (const client of clients.values()) client.close();
    });
    return {
      name,
      takes: () => true,
      async send(id, request) {
        const head = headOf(request);
        const client = clients.get(head.address) ?? new RawClient(head.address);
        clients.set(head.address, client);
        const answer = await client.send(bytesOf(id, request, head));
        return answer === undefined ? "closed" : (answer.code ?? "sent");
      },
    };
  }

  function overHttp2(name: string, headOf: HeadOf): Face {
    const sessions = new Map<string, ClientHttp2Session>();
    closing.push(() => {
      for (const session of sessions.values()) session.destroy();
    });
    return {
      name,
      takes: () => true,
      send(id, request) {
        const head = headOf(request);
        const known = sessions.get(head.address);
        const session = known === undefined || known.closed || known.destroyed ? http2.connect(head.address) : known;
        if (session !== known) session.on("error", () => {});
        sessions.set(head.address, session);
        return streamed(session, { ...head, id, request });
      },
    };
  }

  const overRpc: Face = {
    name: "SendRequest",
    takes: () => true,
    async send(id, request) {
      const { method, target, headers, body, caller, place } = request;
      const fields: Fields = [...headers, ...other(request), [idField, id]];
      try {
        const { problem } = await world.traffic[caller].sendRequest({
          connection: { environment: "dev", integration: integrationOf(place), id: "ada" },
          ...{ method, path: target, body: Buffer.from(body, "latin1") },
          headers: fields.map(([name, value]) => ({ name, value: Buffer.from(value, "latin1") })),
        });
        return problem?.code ?? "sent";
      } catch (error) {
        return ConnectError.from(error).metadata.get("latchkey-error") ?? "closed";
      }
    },
  };

  const overScript: Face = {
    name: "script",
    // A script has no key and no limits, writes each field once, and gives a body a type.
    takes({ caller, headers, body }) {
      const names = new Set(headers.map(([name]) => name.toLowerCase()));
      return caller === "key" && names.size === headers.length && (body === "" || names.has("content-type"));
    },
    send: (id, request) => askScript(data, { id, request, fields: named(request), baseUrl: other(request)[0]?.[1] }),
  };

  /** The fast lane does not take a request that names a hop-by-hop field. */
  const slow: Fields = [["connection", "keep-alive, x-none"]];
  const webSocket = overHttp1("WebSocket", proxied(data, upgradeFields));
  const faces: readonly Face[] = [
    overHttp1("fast lane", proxied(data)),
    overHttp1("general lane", proxied(data, slow)),
    overHttp2("HTTP/2", proxied(data)),
    overHttp1("alias", aliased),
    overHttp1("absolute form", absolute(data, named)),
    overHttp1(
      "forward proxy, absolute form",
      absolute(forward, ({ caller }) => [["proxy-authorization", `Bearer ${secrets[caller]}`]]),
    ),
    overHttp1("tunnel", tunneled("http/1.1")),
    overHttp1("tunnel, general lane", tunneled("http/1.1", slow)),
    overHttp2("tunnel, HTTP/2", tunneled("h2")),
    overHttp1("edge", proxied(edge)),
    overHttp2("edge, HTTP/2", proxied(edge)),
    // These cost more than all others.
    sometimes(overRpc, 4),
    sometimes(overScript, 8),
    sometimes({ ...webSocket, takes: ({ method, body }) => method === "GET" && body === "" }, 4),
  ];
  return {
    faces,
    close() {
      for (const close of closing) close();
    },
  };
}

/** Takes one of so many requests. */
function sometimes(face: Face, oneOf: number): Face {
  let asked = 0;
  return {
    ...face,
    takes(request) {
      asked += 1;
      return asked % oneOf === 1 && face.takes(request);
    },
  };
}

/** The action that `askScript` runs, for the folder of an integration. */
export const faceScript = `
import { createAction } from "latchkey/scripts";
export default createAction({ description: "Sends a request.", exec: async (nango, request) => {
  try { await nango.proxy(request); return "sent"; } catch (error) { return error.code ?? String(error); }
} });`;

interface ScriptedRequest {
  readonly id: string;
  readonly request: FuzzedRequest;
  readonly fields: Fields;
  readonly baseUrl: string | undefined;
}

async function askScript(data: string, { id, request, fields, baseUrl }: ScriptedRequest): Promise<string> {
  const { method, target, headers, body } = request;
  const input = {
    ...{ method, endpoint: target, retries: 0, headers: Object.fromEntries([...headers, [idField, id]]) },
    ...(body !== "" && { data: body }),
    ...(baseUrl !== undefined && { baseUrlOverride: baseUrl }),
  };
  const answer = await fetch(`${data}/action/trigger`, {
    method: "POST",
    headers: { ...Object.fromEntries(fields), "content-type": "application/json" },
    body: JSON.stringify({ action_name: "asks", input }),
  }).catch((error: Error) => {
    // A kept connection that the server has closed meanwhile.
    if (error instanceof TypeError) return undefined;
    throw error;
  });
  if (answer === undefined) return "closed";
  const said: unknown = await answer.json();
  return typeof said === "string" ? said : JSON.stringify(said);
}

const upgradeFields: Fields = [
  ["connection", "upgrade"],
  ["upgrade", "websocket"],
  ["sec-websocket-version", "13"],
  ["sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="],
];

function bytesOf(id: string, { method, headers, body }: FuzzedRequest, { target, host, fields }: FaceHead): string {
  const lines = [...fields, ...headers, [idField, id] as const].map(([name, value]) => `${name}: ${value}\r\n`);
  const length = body === "" ? "" : `content-length: ${body.length}\r\n`;
  return `${method} ${target} HTTP/1.1\r\nhost: ${host}\r\n${lines.join("")}${length}\r\n${body}`;
}

interface StreamedRequest extends FaceHead {
  readonly id: string;
  readonly request: FuzzedRequest;
}

function streamed(
  session: ClientHttp2Session,
  { id, request, target, host, fields }: StreamedRequest,
): Promise<string> {
  const { method, headers, body } = request;
  const all: OutgoingHttpHeaders = { ":method": method, ":path": target, ":authority": host };
  for (const [name, written] of [...fields, ...headers, [idField, id] as const]) {
    const lower = name.toLowerCase();
    // RFC 9113, 8.2.1: a value has no space around it, as no parser of HTTP/1.1 leaves one.
    const value = written.trim();
    const known = all[lower];
    all[lower] = known === undefined ? value : [...[known].flat().map(String), value];
  }
  if (body !== "") all["content-length"] = body.length;
  return new Promise((resolve) => {
    let verdict = "closed";
    let stream: ClientHttp2Stream;
    try {
      stream = session.request(all, { endStream: body === "" });
    } catch {
      // Node's client refuses some fields that repeat.
      resolve(unsendable);
      return;
    }
    stream.on("response", (answer) => {
      verdict = String(answer["latchkey-error"] ?? "sent");
    });
    stream.on("error", () => {});
    stream.on("close", () => resolve(verdict));
    stream.resume();
    if (body !== "") stream.end(body, "latin1");
  });
}
