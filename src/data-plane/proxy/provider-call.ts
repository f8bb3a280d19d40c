import { randomBytes } from "node:crypto";
import type { Socket } from "node:net";
import { type Attachment, CannotAttach } from "../../auth/attachment.ts";
import { Fault, type FaultCode } from "../../base/fault.ts";
import { createNote } from "../../base/memo.ts";
import type { World } from "../../base/world.ts";
import type { AttachedCredentials, Attachments } from "../../broker/credentials/attachments.ts";
import type { CacheSlot, Live, LiveConnection } from "../../broker/credentials/live-connections.ts";
import type { Access } from "../../broker/setup/access.ts";
import { type Caller, requireScope } from "../../broker/setup/caller.ts";
import type { Address, Binding } from "../../core/outgoing/binding.ts";
import { callerKey } from "../../core/outgoing/caller-key.ts";
import { countedForward } from "../../core/outgoing/max-forwards.ts";
import { endingOf, type OutgoingRequest, type ProxiedHead } from "../../core/outgoing/outgoing.ts";
import { mistakeInPath } from "../../core/outgoing/provider-path.ts";
import { type ProxyOptions, proxyOptions } from "../../core/outgoing/proxy-options.ts";
import { refusedAddress } from "../../core/outgoing/refused-address.ts";
import { Scope } from "../../gen/latchkey/v1/access_pb.ts";
import type { ConnectionRef } from "../../gen/latchkey/v1/connection_pb.ts";
import type { ProxyRules } from "../../gen/latchkey/v1/provider_pb.ts";
import {
  bodyOf,
  type FrontHead,
  type FrontRequest,
  type FrontResponse,
  isStream,
} from "../../relay/client/incoming.ts";
import { type FailureKind, RelayFailure } from "../../relay/failure.ts";
import { type AdmittedOrigin, parseOrigin } from "../../relay/origin.ts";
import type { Upstream } from "../../relay/upstream.ts";
import type { RateLimits } from "../server/rate-limits.ts";
import { createProviderNonces } from "./nonces.ts";
import type { Answers, ProxyCount } from "./proxy-count.ts";
import { isReflectionGuarded } from "./reflection.ts";
import { isUseRecorded, type UseRecorder, type UseRecords } from "./use-records.ts";

/** Checks every request to a provider and prepares its call. */
export interface ProviderCalls {
  /** Calls either `ready` or `fail`, once. Uses no promise if the connection is cached. */
  begin(asking: ObservedCall, outcome: CallCallbacks): void;
  /**
   * Like `begin`, for a cached connection whose uses are not recorded. Returns undefined if uses are recorded or the
   * key is not cached. A returned promise settles when the connection may be cached. Throws what `fail` would get.
   * Takes no rate-limit token: `admit` does, and returns whether there was one.
   */
  peek(asking: CallContext): ProviderCall | Promise<void> | undefined;
  admit(call: ProviderCall): boolean;
  /**
   * The provider has refused the credentials of a call. Returns the same call with other credentials; undefined if
   * there are none.
   */
  renewed(asking: CallContext, refused: ProviderCall): Promise<ProviderCall | undefined>;
  /** Returns the current connection of a call; undefined if the connection can no longer be used. Never rejects. */
  reread(call: ProviderCall): Promise<LiveConnection | undefined>;
  /** Returns the input for `outgoing`, which writes the provider's request. */
  goingOf(call: ProviderCall, asked: ProxiedHead, content: Uint8Array | undefined): OutgoingRequest;
  /** Reads a response. Returns true if the provider only refused for lack of a nonce that this response brings. */
  heard(call: ProviderCall, answer: { readonly status: number; readonly fields: readonly string[] }): boolean;
}

export interface CallContext {
  readonly request: FrontHead;
  /** The connection of an alias address, which needs no prefix and no connection headers. */
  readonly alias?: ConnectionRef | undefined;
}

/** A call whose response can be observed. */
export interface ObservedCall extends CallContext {
  readonly request: FrontRequest;
  readonly response: FrontResponse;
  /** The socket of a request for a tunnel. */
  readonly socket?: Socket;
}

interface CallCallbacks {
  readonly ready: (call: ProviderCall) => void;
  readonly fail: (error: unknown) => void;
}

/** A request with its connection that may be sent. */
export interface ProviderCall {
  readonly since: number;
  readonly caller: Caller;
  readonly live: LiveConnection;
  readonly attachment: Attachment;
  /** Counters of responses, by kind of credentials. */
  readonly answers: Answers;
  /** Identity of the attachment, for caching. */
  readonly stamp: object | undefined;
  /** Text of the attachment's headers and Latchkey's `Via`; undefined: the text differs for each request. */
  readonly ending: string | undefined;
  readonly asked: ProxiedHead;
  readonly options: ProxyOptions;
  readonly binding: Binding;
  readonly address: Address;
  /** Path before the requested path. */
  readonly basePath: string;
  readonly proxy: ProxyRules | undefined;
  readonly origin: AdmittedOrigin;
  /** The value of a Host header. */
  readonly host: string;
  /** Set for an integration whose uses are recorded. */
  readonly use: UseRecorder | undefined;
  /** `Max-Forwards` makes Latchkey the last hop, which must answer. */
  readonly isLastHop: boolean;
}

interface ProviderCallsOptions {
  readonly access: Access;
  readonly live: Live;
  readonly attachments: Attachments;
  readonly upstream: Upstream;
  readonly rates: RateLimits;
  readonly uses: UseRecords;
  readonly count: Pick<ProxyCount, "answersOf">;
  readonly world: World;
}

export const proxyPrefix = "/proxy";
/** Other methods are allowed too, except TRACE and CONNECT. */
export const allowedMethods = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS";

type RequestOriginAndHost = Pick<ProviderCall, "origin" | "host">;

type FoundCall = Pick<ProviderCall, "since" | "caller" | "live" | "options" | "use"> & { readonly key: string };

interface AuthenticatedCaller {
  readonly authorization: string | undefined;
  readonly key: string;
  readonly caller: Caller;
}

/** The requested connection and options, and the caller. */
interface CallRequest {
  readonly key: string;
  readonly caller: Caller;
  readonly ref: ConnectionRef;
  readonly alias: ConnectionRef | undefined;
  readonly options: ProxyOptions;
  /** Cache slot of the connection at the last request. */
  seat: CacheSlot | undefined;
}

/** Cache for a live connection: its credentials and its last target, all that a request needs. */
interface CachedCall extends Pick<ProviderCall, "attachment" | "binding" | "answers" | "ending"> {
  /** The address of all its requests, unless they name another one. */
  readonly only: Address | undefined;
  readonly untilMs: number | undefined;
  readonly own: AttachedCredentials;
  readonly stamp: object;
  address: Address | undefined;
  origin: AdmittedOrigin | undefined;
  host: string;
}

export function createProviderCalls(options: ProviderCallsOptions): ProviderCalls {
  const { access, live, attachments, upstream, rates, uses, count, world } = options;
  /** Origins are checked once for each connection; addresses once for each socket. */
  const admitted = new WeakMap<AttachedCredentials, Map<string, RequestOriginAndHost>>();
  const lastKeys = new WeakMap<Socket, AuthenticatedCaller>();
  const wanted = createNote<CallRequest>();
  const usual = createNote<CachedCall>();
  const nonces = createProviderNonces();

  function begin(asking: ObservedCall, { ready, fail }: CallCallbacks): void {
    const since = performance.now();
    const { request } = asking;
    const failed = (error: unknown) => fail(faultOfPreparing(error));

    function find({ key, caller }: AuthenticatedCaller): Promise<void> | undefined {
      const ref = refOf(request, { environment: caller.environment, alias: asking.alias });
      const options = proxyOptions((name) => headerOf(request, name));
      rates.take?.(caller.keyId, ref, since);
      const found = (one: LiveConnection): undefined => {
        const use = isUseRecorded(one) ? uses.begin(asking, { live: one, caller, since }) : undefined;
        ready(callOf(asking, { since, caller, live: one, key, options, use }));
      };
      const held = live.peek(ref);
      return held === undefined ? live.get(ref).then(found) : found(held);
    }

    try {
      requireMethod(request);
      const authenticated = authenticate(request);
      const finding = authenticated instanceof Promise ? authenticated.then(find) : find(authenticated);
      finding?.catch(failed);
    } catch (error) {
      failed(error);
    }
  }

  function peek(asking: CallContext): ProviderCall | Promise<void> | undefined {
    const since = performance.now();
    const wantedNow = wantedBy(asking);
    if (wantedNow === undefined) return undefined;
    const { caller, key, ref, options } = wantedNow;
    const held = live.peek(ref, wantedNow.seat);
    // The error is reported by the full path.
    if (held === undefined) return live.get(ref).then(nothing, nothing);
    if (isUseRecorded(held)) return undefined;
    if (wantedNow.seat !== held.seat) wantedNow.seat = held.seat;
    return callOf(asking, { since, caller, live: held, key, options, use: undefined });
  }

  function usualOf(found: LiveConnection): CachedCall {
    const { seat } = found;
    const known = seat && usual.of(seat);
    if (known !== undefined && (known.untilMs === undefined || known.untilMs > world.now())) return known;
    const own = attachments(found);
    const { attachment, binding } = own;
    const made = {
      ending: endingOf(attachment),
      answers: count.answersOf(found.credentials.kind.case ?? "none"),
      only: binding.only,
      untilMs: attachment.kind === "fixed" ? attachment.untilMs : undefined,
      ...{ own, attachment, binding, stamp: {}, address: undefined, origin: undefined, host: "" },
    };
    // Evicted in the meantime: do not cache for it.
    return seat?.live === undefined ? made : usual.keep(seat, made);
  }

  function originFor(used: CachedCall, address: Address): AdmittedOrigin {
    if (used.origin !== undefined && used.address === address) return used.origin;
    const { origin, host } = admit(used.own, address);
    used.address = address;
    used.origin = origin;
    used.host = host;
    return origin;
  }

  /**
   * Repeated headers are parsed once; the key is checked each time. Undefined if the key is not cached; the full path
   * may know the key.
   */
  function wantedBy({ request, alias }: CallContext): CallRequest | undefined {
    const { memo } = request;
    const known = memo && wanted.of(memo);
    if (known !== undefined && known.alias === alias && access.isCurrent(known.caller)) return known;
    const authenticated = authenticate(request);
    if (authenticated instanceof Promise) {
      // The full path asks again and reports the error.
      authenticated.catch(nothing);
      return undefined;
    }
    const { key, caller } = authenticated;
    const ref = refOf(request, { environment: caller.environment, alias });
    const options = proxyOptions((name) => headerOf(request, name));
    const made = { key, caller, ref, alias, options, seat: undefined };
    return memo === undefined ? made : wanted.keep(memo, made);
  }

  /** A key that repeats on its socket is looked up once; its validity is checked each time. */
  function authenticate(request: FrontHead): AuthenticatedCaller | Promise<AuthenticatedCaller> {
    const { headers, socket } = request;
    const authorization = headerOf(request, "authorization");
    const last = lastKeys.get(socket);
    const isAlone = headers["latchkey-key"] === undefined && headers["proxy-authorization"] === undefined;
    if (isAlone && last !== undefined && last.authorization === authorization && access.isCurrent(last.caller)) {
      return last;
    }
    const key = callerKey((name) => headerOf(request, name));
    const admit = (caller: Caller): AuthenticatedCaller => {
      requireScope(caller, Scope.PROXY);
      const authenticated = { authorization, key, caller };
      if (isAlone) lastKeys.set(socket, authenticated);
      return authenticated;
    };
    const caller = access.authenticate(key);
    return caller instanceof Promise ? caller.then(admit) : admit(caller);
  }

  function callOf(
    { request, alias }: CallContext,
    { since, caller, live: found, key, options, use }: FoundCall,
  ): ProviderCall {
    const used = usualOf(found);
    const { attachment, binding, answers, stamp, ending } = used;
    const { address, path } = addressOf({ url: request.url ?? "", isAlias: alias !== undefined, used, options });
    const mistake = mistakeInPath(path);
    if (mistake !== undefined) throw new Fault("invalid_path", mistake);
    const { method = "GET" } = request;
    const counted = method === "OPTIONS" ? countedForward(request.rawHeaders) : request.rawHeaders;
    if (counted === "wrong") throw new Fault("invalid_headers", "Max-Forwards must be one number");
    const isLastHop = counted === "none";
    const rawHeaders = isLastHop ? request.rawHeaders : counted;
    const { memo } = request;
    const asked = { method, path, rawHeaders, memo, body: bodyOf(request), key, isHttp2: isStream(request) };
    const origin = originFor(used, address);
    const { host } = used;
    use?.going({ host, path, attachment, key });
    const { basePath } = address;
    const { proxy } = found.provider;
    // Written out: there is one object for each request, and a spread costs more than the rest of the function.
    return {
      since,
      caller,
      live: found,
      attachment,
      answers,
      stamp,
      ending,
      binding,
      asked,
      options,
      address,
      basePath,
      proxy,
      origin,
      host,
      use,
      isLastHop,
    };
  }

  function admit(attached: AttachedCredentials, { origin: href }: Address): RequestOriginAndHost {
    const known = admitted.get(attached)?.get(href);
    if (known !== undefined) return known;
    const parsed = parseOrigin(href);
    if (parsed === undefined) throw new Fault("host_not_allowed", "the provider's address is none");
    const { attachment } = attached;
    const { clientCertificate } = attachment;
    const origin = upstream.admit({ ...parsed, clientCertificate });
    const made = { origin, host: origin.authority };
    const all = admitted.get(attached) ?? new Map<string, RequestOriginAndHost>();
    admitted.set(attached, all.set(href, made));
    return made;
  }

  return {
    begin,
    peek,
    admit({ caller, live: { connection }, since }) {
      const { tryTake } = rates;
      return tryTake === undefined || (connection.ref !== undefined && tryTake(caller.keyId, connection.ref, since));
    },
    async renewed(asking, refused) {
      const { since, caller, options, use, asked } = refused;
      const fresh = await live.replacementOf(refused.live);
      if (fresh === undefined) return undefined;
      return callOf(asking, { since, caller, live: fresh, key: asked.key ?? "", options, use });
    },
    async reread({ live: { connection } }) {
      try {
        return connection.ref === undefined ? undefined : await live.get(connection.ref);
      } catch (err) {
        // The response has already arrived, and continues without the connection that could not be read.
        world.log.debug("a connection was not read again", { err });
        return undefined;
      }
    },
    goingOf: (call, asked, content) => ({
      asked,
      scheme: call.origin.scheme,
      host: call.host,
      basePath: call.basePath,
      attachment: call.attachment,
      ...{ stamp: call.stamp, ending: call.ending },
      proxy: call.proxy,
      wantsPlain: isReflectionGuarded(call.live.integration),
      content,
      nowMs: world.now(),
      nonce,
      providerNonce: nonces.nextFor(call),
    }),
    heard: nonces.heard,
  };
}

const nothing = () => {};
const nonce = () => randomBytes(16).toString("hex");

function requireMethod({ method = "" }: FrontHead): void {
  // A TRACE response repeats the request with its credentials.
  if (method !== "TRACE" && method !== "CONNECT") return;
  throw new Fault("method_not_allowed", `${method} does not go to a provider`, { metadata: { allow: allowedMethods } });
}

function headerOf({ headers }: FrontHead, name: string): string | undefined {
  const value = headers[name];
  return typeof value === "string" ? value : value?.[0];
}

interface ConnectionNaming {
  /** The environment of the caller. */
  readonly environment: string | undefined;
  readonly alias: ConnectionRef | undefined;
}

function refOf({ headers }: FrontHead, { environment, alias }: ConnectionNaming): ConnectionRef {
  if (environment === undefined)
    throw new Fault("missing_scope", "a control key opens the control plane; the proxy takes an environment's key");
  if (alias !== undefined) {
    if (alias.environment === environment) return alias;
    throw new Fault("unknown_connection", "there is no such connection in this environment");
  }
  const integration = headers["provider-config-key"] ?? "";
  const id = headers["connection-id"] ?? "";
  if (typeof integration !== "string" || integration === "")
    throw new Fault("invalid_headers", "name the integration: Provider-Config-Key: <key>");
  if (typeof id !== "string" || id === "")
    throw new Fault("invalid_headers", "name the connection: Connection-Id: <id>");
  return { $typeName: "latchkey.v1.ConnectionRef", environment, integration, id };
}

interface AddressedRequest {
  readonly url: string;
  readonly isAlias: boolean;
  readonly used: Pick<CachedCall, "binding" | "only">;
  readonly options: ProxyOptions;
}

function addressOf({ url, isAlias, used, options }: AddressedRequest): {
  readonly address: Address;
  readonly path: string;
} {
  // Absolute form: the caller uses Latchkey as its forward proxy.
  if (!url.startsWith("/")) {
    if (!/^https?:\/\//i.test(url)) throw new Fault("invalid_path", "the request must name a path");
    const within = used.binding.pathWithin(url);
    if (within === undefined) throw refusedAddress(used.binding);
    return within;
  }
  // A gRPC call has its path from the proto file, without a prefix.
  const path = isAlias || !url.startsWith(`${proxyPrefix}/`) ? url : url.slice(proxyPrefix.length);
  const address =
    options.baseUrl === undefined
      ? (used.only ?? used.binding.addressFor(path))
      : used.binding.addressAt(options.baseUrl);
  if (address === undefined) throw refusedAddress(used.binding, options.baseUrl);
  return { address, path };
}

/** Converts errors of preparing a request. */
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
  no_http2: "http2_required",
};

export function faultOfRelay(failure: RelayFailure): Fault {
  const code = codes[failure.kind];
  return new Fault(code, failure.message, {
    cause: failure,
    ...(code === "overloaded" ? { retryAfterSeconds: 1 } : {}),
  });
}
