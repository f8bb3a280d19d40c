import { hash, timingSafeEqual } from "node:crypto";
import * as v from "valibot";
import { type Bounded, createBounded } from "../bounded.ts";
import { type Call, formOf, mediaType, objectOf, refuseOAuth } from "../call.ts";

/** A registered app: a client of OAuth 2, and a consumer of OAuth 1. */
export const clientSchema = v.strictObject({
  id: v.pipe(v.string(), v.minLength(1), v.maxLength(255)),
  name: v.optional(v.pipe(v.string(), v.maxLength(200)), "An app"),
  /** Absent for a public client, which must use PKCE. */
  secret: v.optional(v.pipe(v.string(), v.minLength(1), v.maxLength(1_024))),
  /** Compared exactly. Empty: any address on this machine. */
  redirectUris: v.optional(v.array(v.pipe(v.string(), v.url())), []),
  /** The only way in which the client may send its secret; default: both. */
  authMethod: v.optional(v.picklist(["client_secret_basic", "client_secret_post"])),
});
export type SandboxClient = v.InferOutput<typeof clientSchema>;
export type ClientInput = v.InferInput<typeof clientSchema>;

/** Predefined apps. Their secrets are public: the sandbox has no real data. */
export const readyClient: SandboxClient = {
  id: "sandbox",
  name: "Sandbox app",
  secret: "sandbox-secret",
  redirectUris: [],
};
export const publicClient: SandboxClient = {
  id: "sandbox-public",
  name: "Sandbox app without a secret",
  redirectUris: [],
};

export type SandboxClients = Bounded<SandboxClient>;

const mostClients = 10_000;

export function createClients(more: readonly ClientInput[]): SandboxClients {
  const clients = createBounded<SandboxClient>(mostClients);
  for (const client of [readyClient, publicClient, ...more]) clients.set(client.id, v.parse(clientSchema, client));
  return clients;
}

/** The parameters of a request to the token or a related endpoint: a form, or JSON, which some clients send. */
export function parametersOf(call: Call): URLSearchParams {
  const parameters =
    mediaType(call) === "application/json"
      ? new URLSearchParams(
          Object.entries(objectOf(call)).filter((pair): pair is [string, string] => typeof pair[1] === "string"),
        )
      : formOf(call);
  for (const name of new Set(parameters.keys())) {
    // RFC 6749, section 3.2.
    if (parameters.getAll(name).length > 1) throw refuseOAuth(400, "invalid_request", `${name} must not be repeated`);
  }
  return parameters;
}

/** RFC 6749, section 2.3: by Basic or in the body, and a public client by its id alone; never in two ways. */
export function authenticateClient(clients: SandboxClients, call: Call, parameters: URLSearchParams): SandboxClient {
  const basic = basicPair(call.headers.authorization, "form");
  const posted = parameters.get("client_secret");
  if (basic !== undefined && posted !== null) {
    throw refuseOAuth(400, "invalid_request", "the client authenticates in two ways");
  }
  const id = basic?.[0] ?? parameters.get("client_id");
  if (id === null) throw unauthenticated("client_id is missing");
  if (basic !== undefined && (parameters.get("client_id") ?? id) !== id) {
    throw refuseOAuth(400, "invalid_request", "client_id must be the authenticated client");
  }
  const client = clients.get(id);
  if (client === undefined) throw unauthenticated("unknown client");
  const secret = basic?.[1] ?? posted ?? undefined;
  if (client.secret === undefined ? (secret ?? "") !== "" : !isSame(secret ?? "", client.secret)) {
    throw unauthenticated("wrong client secret");
  }
  const method = basic === undefined ? "client_secret_post" : "client_secret_basic";
  if (client.secret !== undefined && (client.authMethod ?? method) !== method) {
    throw unauthenticated(`this client must authenticate by ${client.authMethod}`);
  }
  return client;
}

const unauthenticated = (description: string) =>
  refuseOAuth(401, "invalid_client", description, { "www-authenticate": 'Basic realm="sandbox"' });

/** User name and password of a Basic header; a client form-encodes them first (RFC 6749, section 2.3.1). */
export function basicPair(header: string | undefined, encoding: "form" | "none"): [string, string] | undefined {
  const [, encoded] = /^basic +([A-Za-z0-9+/=]+)$/i.exec(header ?? "") ?? [];
  if (encoded === undefined) return undefined;
  const text = Buffer.from(encoded, "base64").toString("utf8");
  const colon = text.indexOf(":");
  if (colon === -1) return undefined;
  const pair: [string, string] = [text.slice(0, colon), text.slice(colon + 1)];
  if (encoding === "none") return pair;
  try {
    return [formDecoded(pair[0]), formDecoded(pair[1])];
  } catch {
    /* Not form-encoded: the client sent a bare percent sign. */
    return undefined;
  }
}

const formDecoded = (text: string) => decodeURIComponent(text.replaceAll("+", " "));

/** Compares in constant time, as an example to follow. */
export const isSame = (one: string, other: string): boolean =>
  timingSafeEqual(hash("sha256", one, "buffer"), hash("sha256", other, "buffer"));

/** Whether an address is registered. A client without registered ones may use any address on this machine. */
export function mayRedirect(client: SandboxClient, uri: string): boolean {
  if (client.redirectUris.length > 0) return client.redirectUris.some((one) => isRegistered(one, uri));
  return URL.canParse(uri) && isLoopback(new URL(uri)) && new URL(uri).hash === "";
}

/** RFC 8252, section 7.3: the port of a loopback address is ignored. */
function isRegistered(registered: string, uri: string): boolean {
  if (registered === uri) return true;
  if (!URL.canParse(registered) || !URL.canParse(uri)) return false;
  const [one, other] = [new URL(registered), new URL(uri)];
  if (!/^(127\.0\.0\.1|\[::1\])$/.test(one.hostname) || one.protocol !== "http:") return false;
  other.port = one.port;
  return one.href === other.href;
}

export const isLoopback = ({ protocol, hostname }: URL): boolean =>
  /^https?:$/.test(protocol) && /^(127(\.\d+){3}|\[::1\]|localhost|[a-z0-9.-]+\.localhost)$/.test(hostname);
