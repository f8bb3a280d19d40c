import { randomBytes } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { type Attachment, CannotAttach } from "../auth/attachment.ts";
import { Fault, type FaultCode } from "../base/fault.ts";
import { lowerCase } from "../base/field-name.ts";
import type { World } from "../base/world.ts";
import { type Access, requireScope } from "../broker/access.ts";
import type { Attached, Attachments } from "../broker/attachments.ts";
import type { Live, LiveConnection } from "../broker/live.ts";
import type { Address, Binding } from "../core/binding.ts";
import { callerKey } from "../core/caller-key.ts";
import { countedForward } from "../core/max-forwards.ts";
import type { Asked, Going } from "../core/outgoing.ts";
import { mistakeInPath } from "../core/provider-path.ts";
import { type ProxyOptions, proxyOptions } from "../core/proxy-options.ts";
import { Scope } from "../gen/latchkey/v1/access_pb.ts";
import type { ConnectionRef } from "../gen/latchkey/v1/connection_pb.ts";
import { type FailureKind, RelayFailure } from "../relay/failure.ts";
import { bodyOf } from "../relay/front.ts";
import { authorityOf, type Origin, parseOrigin } from "../relay/origin.ts";
import type { Upstream } from "../relay/upstream.ts";
import type { RateLimits } from "./rate-limits.ts";
import { isReflectionGuarded } from "./reflection.ts";
import { isUseRecorded, type Use, type Uses } from "./uses.ts";

/** What any request must pass to reach a provider, and what it then has: the same for all that goes there. */
export interface ProviderCalls {
  /** Without a promise on the way when memory has the connection. Of `ready` and `fail` one is called, once. */
  begin(asking: Asking, outcome: Outcome): void;
  /** What `outgoing` makes the provider's request of. */
  goingOf(call: ProviderCall, asked?: Asked, content?: Uint8Array): Going;
}

export interface Asking {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  /** Of a request that asks to go on as a tunnel. */
  readonly socket?: Socket;
  /** The connection that an address of its own stands for: then no prefix and no connection headers are needed. */
  readonly alias?: ConnectionRef;
}

interface Outcome {
  readonly ready: (call: ProviderCall) => void;
  readonly fail: (error: unknown) => void;
}

/** A request whose connection is at hand, and which may go. */
export interface ProviderCall {
  readonly since: number;
  readonly live: LiveConnection;
  readonly attachment: Attachment;
  readonly asked: Asked;
  readonly options: ProxyOptions;
  readonly binding: Binding;
  readonly address: Address;
  readonly origin: Origin;
  /** As a Host field has it. */
  readonly host: string;
  /** Of an integration that has its uses recorded. */
  readonly use: Use | undefined;
  /** By `Max-Forwards`, ours to answer. */
  readonly isLastHop: boolean;
}

interface ProviderCallsOptions {
  readonly access: Access;
  readonly live: Live;
  readonly attachments: Attachments;
  readonly upstream: Upstream;
  readonly rates: RateLimits;
  readonly uses: Uses;
  readonly world: World;
}

export const proxyPrefix = "/proxy";
/** Any other goes as well, but for TRACE and CONNECT. */
export const allowedMethods = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS";

type Admitted = Pick<ProviderCall, "origin" | "host">;

export function createProviderCalls(options: ProviderCallsOptions): ProviderCalls {
  const { access, live, attachments, upstream, rates, uses, world } = options;
  /** Judged once for each origin of a connection; the address it leads to, once for each connection to it. */
  const admitted = new WeakMap<Attached, Map<string, Admitted>>();

  function begin(asking: Asking, { ready, fail }: Outcome): void {
    const since = performance.now();
    try {
      const { request } = asking;
      requireMethod(request);
      const header = (name: string) => headerOf(request, name);
      const key = callerKey(header);
      const caller = access.authenticate(key);
      requireScope(caller, Scope.PROXY);
      const ref = refOf(header, { environment: caller.environment, alias: asking.alias });
      const options = proxyOptions(header);
      rates.take?.(caller.keyId, ref, since);
      const held = live.peek(ref);
      const found = (one: LiveConnection) => {
        try {
          const use = isUseRecorded(one) ? uses.begin(asking, { live: one, caller, since }) : undefined;
          ready(callOf(asking, { since, live: one, key, options, use }));
        } catch (error) {
          fail(faultOfPreparing(error));
        }
      };
      if (held !== undefined) found(held);
      else live.get(ref).then(found, fail);
    } catch (error) {
      fail(error);
    }
  }

  function callOf(
    { request, alias }: Asking,
    {
      since,
      live: found,
      key,
      options,
      use,
    }: Pick<ProviderCall, "since" | "live" | "options" | "use"> & { readonly key: string },
  ): ProviderCall {
    const own = attachments(found);
    const { address, path } = addressOf({
      url: request.url ?? "",
      isAlias: alias !== undefined,
      binding: own.binding,
      options,
    });
    const mistake = mistakeInPath(path);
    if (mistake !== undefined) throw new Fault("invalid_path", mistake);
    const kept = withoutKey(request.rawHeaders, key);
    const counted = request.method === "OPTIONS" ? countedForward(kept) : kept;
    if (counted === "wrong") throw new Fault("invalid_headers", "Max-Forwards must be one number");
    const asked = {
      method: request.method ?? "GET",
      path,
      rawHeaders: counted === "none" ? kept : counted,
      body: bodyOf(request),
    };
    const { origin, host } = admit(own, address);
    use?.going({ host, path, attachment: own.attachment, key });
    return {
      since,
      live: found,
      attachment: own.attachment,
      binding: own.binding,
      asked,
      options,
      address,
      origin,
      host,
      use,
      isLastHop: counted === "none",
    };
  }

  function admit(attached: Attached, { origin: href }: Address): Admitted {
    const known = admitted.get(attached)?.get(href);
    if (known !== undefined) return known;
    const parsed = parseOrigin(href);
    if (parsed === undefined) throw new Fault("host_not_allowed", "the provider's address is none");
    const { attachment } = attached;
    const clientCertificate = attachment.kind === "fixed" ? attachment.clientCertificate : undefined;
    const origin = upstream.admit({ ...parsed, clientCertificate });
    const made = { origin, host: authorityOf(origin) };
    const all = admitted.get(attached) ?? new Map<string, Admitted>();
    admitted.set(attached, all.set(href, made));
    return made;
  }

  return {
    begin,
    goingOf: ({ live: found, attachment, asked: plain, address, origin, host }, asked = plain, content) => ({
      asked,
      scheme: origin.scheme,
      host,
      basePath: address.basePath,
      attachment,
      proxy: found.provider.proxy,
      wantsPlain: isReflectionGuarded(found.integration),
      content,
      nowMs: world.now(),
      nonce: () => randomBytes(16).toString("hex"),
    }),
  };
}

/** Where a key belongs; these go nowhere in any case. */
const keyPlaces = new Set(["authorization", "latchkey-key", "proxy-authorization"]);

/** The caller's key is for us alone, also where the caller has written it into a field of another name. */
function withoutKey(rawHeaders: readonly string[], key: string): readonly string[] {
  const isKept = (_: string, i: number) =>
    !(rawHeaders[i | 1] ?? "").includes(key) || keyPlaces.has(lowerCase(rawHeaders[i & ~1] ?? ""));
  return rawHeaders.every(isKept) ? rawHeaders : rawHeaders.filter(isKept);
}

function requireMethod({ method = "" }: IncomingMessage): void {
  // An answer to TRACE is the request, credentials and all.
  if (method !== "TRACE" && method !== "CONNECT") return;
  throw new Fault("method_not_allowed", `${method} does not go to a provider`, { metadata: { allow: allowedMethods } });
}

function headerOf({ headers }: IncomingMessage, name: string): string | undefined {
  const value = headers[name];
  return typeof value === "string" ? value : value?.[0];
}

interface Naming {
  /** The caller's. */
  readonly environment: string | undefined;
  readonly alias: ConnectionRef | undefined;
}

function refOf(header: (name: string) => string | undefined, { environment, alias }: Naming): ConnectionRef {
  if (environment === undefined)
    throw new Fault("missing_scope", "a control key opens the control plane; the proxy takes an environment's key");
  if (alias !== undefined) {
    if (alias.environment === environment) return alias;
    throw new Fault("unknown_connection", "there is no such connection in this environment");
  }
  const integration = header("provider-config-key") ?? "";
  const id = header("connection-id") ?? "";
  if (integration === "") throw new Fault("invalid_headers", "name the integration: Provider-Config-Key: <key>");
  if (id === "") throw new Fault("invalid_headers", "name the connection: Connection-Id: <id>");
  return { $typeName: "latchkey.v1.ConnectionRef", environment, integration, id };
}

interface Addressed {
  readonly url: string;
  readonly isAlias: boolean;
  readonly binding: Binding;
  readonly options: ProxyOptions;
}

const notAllowed = () => new Fault("host_not_allowed", "the credentials of this connection do not travel to that host");

function addressOf({ url, isAlias, binding, options }: Addressed): {
  readonly address: Address;
  readonly path: string;
} {
  // In absolute form: the caller takes us for its forward proxy.
  if (!url.startsWith("/")) {
    if (!/^https?:\/\//i.test(url)) throw new Fault("invalid_path", "the request must name a path");
    const within = binding.pathWithin(url);
    if (within === undefined) throw notAllowed();
    return within;
  }
  const path = isAlias ? url : url.slice(proxyPrefix.length);
  const address = options.baseUrl === undefined ? binding.addressFor(path) : binding.addressAt(options.baseUrl);
  if (address === undefined) throw notAllowed();
  return { address, path };
}

type Relocating = Pick<ProviderCall, "address" | "asked" | "options" | "binding"> & Pick<Asking, "alias">;

/**
 * A redirect on the provider's own address stays on this door; any other is the caller's to follow, without
 * credentials. What is relative is so to the provider's address: left as it is, it would lead the caller, with our
 * key, to routes of this door's that the provider chooses.
 */
export function relocated({ address, asked, options, binding, alias }: Relocating, location: string): string {
  const requested = `${address.origin}${address.basePath}${asked.path}`;
  const isWhole = /^[a-z][a-z0-9+.-]*:/i.test(location);
  if (!isWhole && !URL.canParse(location, requested)) return requested;
  const whole = isWhole ? location : new URL(location, requested).href;
  const base = `${address.origin}${address.basePath}`;
  const path = whole.startsWith(`${base}/`) ? whole.slice(base.length) : undefined;
  const [withoutFragment = ""] = path?.split("#", 1) ?? [];
  if (path === undefined || mistakeInPath(withoutFragment) !== undefined) return whole;
  // Of a provider that spans hosts, the path alone may lead to another one.
  if (options.baseUrl === undefined && binding.addressFor(path).origin !== address.origin) return whole;
  return (alias === undefined ? proxyPrefix : "") + path;
}

/** Of what is thrown on the way to a provider. */
export function faultOfPreparing(error: unknown): unknown {
  if (error instanceof CannotAttach) {
    return new Fault("connection_unusable", `the connection cannot be used: ${error.message}`, { cause: error });
  }
  return error instanceof RelayFailure ? faultOfRelay(error) : error;
}

const codes: Readonly<Record<FailureKind, FaultCode>> = {
  refused: "provider_unreachable",
  unreachable: "provider_unreachable",
  unknown_host: "provider_unknown",
  address_forbidden: "host_not_allowed",
  untrusted: "provider_untrusted",
  connect_timeout: "provider_timeout",
  answer_timeout: "provider_timeout",
  idle_timeout: "provider_timeout",
  closed: "provider_closed",
  cut_off: "provider_closed",
  malformed: "provider_malformed",
  overloaded: "overloaded",
};

export function faultOfRelay(failure: RelayFailure): Fault {
  const code = codes[failure.kind];
  return new Fault(code, failure.message, {
    cause: failure,
    ...(code === "overloaded" ? { retryAfterSeconds: 1 } : {}),
  });
}
