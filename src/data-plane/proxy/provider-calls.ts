import { Fault } from "../../base/fault.ts";
import type { World } from "../../base/world.ts";
import type { Live, LiveConnection } from "../../broker/credentials/live-connections.ts";
import type { Hints } from "../../broker/hints.ts";
import type { QuotaRequest, Quotas } from "../../broker/quotas/quotas.ts";
import { requireScope } from "../../broker/setup/caller.ts";
import { countedForward } from "../../core/outgoing/max-forwards.ts";
import type { OutgoingRequest, ProxiedHead } from "../../core/outgoing/outgoing.ts";
import { holdersText } from "../../core/policies/decisions.ts";
import { Scope } from "../../gen/latchkey/v1/access_pb.ts";
import type { ConnectionRef } from "../../gen/latchkey/v1/connection_pb.ts";
import { bodyOf, type FrontHead, isStream } from "../../relay/client/incoming.ts";
import { asRpcFault, noteAnswer } from "../mcp/message.ts";
import type { RateLimits } from "../server/rate-limits.ts";
import { type Admission, isHeld, needsBody } from "./admission.ts";
import type { CallCache } from "./call-cache.ts";
import { requestedOptions } from "./call-request.ts";
import { type CalledBy, type CallSourcesOptions, createCallSources } from "./forwarding/call-sources.ts";
import { createProviderNonces, newNonce } from "./nonces.ts";
import { addressOf } from "./provider-address.ts";
import { allowedMethods, type CallContext, type ObservedCall, type ProviderCall } from "./provider-call.ts";
import type { CallNaming } from "./proxy-call.ts";
import { isReflectionGuarded } from "./reflection.ts";
import { faultOfPreparing } from "./relay-fault.ts";
import { isUseRecorded, type UseRecords } from "./use-records.ts";

/** Checks every request to a provider and prepares its call. */
export interface ProviderCalls {
  /** Calls either `ready` or `fail`, once. Uses no promise if the connection is cached. */
  begin(context: ObservedCall, outcome: CallCallbacks): void;
  /**
   * Like `begin`, for a cached connection whose uses are not recorded. Returns undefined if uses are recorded. A
   * returned promise resolves when more of caller and connection is cached, and rejects if there is none, or none that
   * is valid now. Throws what `fail` would get.
   * Takes no rate-limit token: `admit` does, and returns whether there was one.
   */
  peek(context: CallContext): ProviderCall | Promise<void> | undefined;
  admit(call: ProviderCall): boolean;
  /**
   * Throws if policies refuse a call because of its body. A returned promise settles once the call was counted: a
   * refused or held one uses nothing of its caller's budget.
   */
  requireAllowedBody(call: ProviderCall, content: Uint8Array): Promise<void> | undefined;
  /** Prepares a call again that waited for an approval. Rejects if it may no longer be sent. */
  again(context: ObservedCall, before: ProviderCall, content: Uint8Array): Promise<ProviderCall>;
  /** Counts a held call, before it is sent. */
  spend(call: ProviderCall): Promise<void> | undefined;
  /**
   * The provider has refused the credentials of a call. Returns the same call with other credentials; undefined if
   * there are none.
   */
  withNewCredentials(context: CallContext, refused: ProviderCall): Promise<ProviderCall | undefined>;
  /**
   * Returns a call that repeats another one, with what its caller may do now. Throws if limits or policies refuse it:
   * the connection was read again, and may have other tags, another host or other credentials.
   */
  admittedAgain(context: CallContext, repeated: ProviderCall, before: ProviderCall): ProviderCall;
  /** Returns the current connection of a call; undefined if the connection can no longer be used. Never rejects. */
  reloadConnection(call: ProviderCall): Promise<LiveConnection | undefined>;
  /** Returns the input for `outgoing`, which writes the provider's request. */
  outgoingRequest(call: ProviderCall, proxied: ProxiedHead, content: Uint8Array | undefined): OutgoingRequest;
  /** Reads a response. Returns true if the provider only refused for lack of a nonce that this response brings. */
  noteResponse(call: ProviderCall, answer: { readonly status: number; readonly fields: readonly string[] }): boolean;
}

interface CallCallbacks {
  /** Called once the key is known to be good. */
  readonly named: (naming: CallNaming) => void;
  readonly ready: (call: ProviderCall) => void;
  readonly fail: (error: unknown) => void;
}

export interface ProviderCallsOptions extends CallSourcesOptions {
  readonly live: Omit<Live, "close">;
  readonly hints: Hints;
  readonly rates: RateLimits;
  readonly quotas: Omit<Quotas, "close">;
  readonly uses: UseRecords;
  readonly cache: CallCache;
  readonly admission: Admission;
  readonly world: World;
}

interface CalledConnection extends CalledBy {
  readonly ref: ConnectionRef;
}

type FoundCall = Pick<ProviderCall, "since" | "caller" | "live" | "options" | "use"> & { readonly key: string };

export function createProviderCalls(parts: ProviderCallsOptions): ProviderCalls {
  const { live, hints, rates, quotas, uses, admission, mcp, world } = parts;
  const sources = createCallSources(parts);
  const nonces = createProviderNonces();

  function begin(context: ObservedCall, { named, ready, fail }: CallCallbacks): void {
    const since = performance.now();
    const { request } = context;
    const failed = (error: unknown) => fail(faultOfPreparing(error));

    function find({ key, caller }: CalledBy): Promise<void> | undefined {
      const ref = sources.connectionOf(context, caller);
      return ref instanceof Promise ? ref.then((one) => use({ key, caller, ref: one })) : use({ key, caller, ref });
    }

    function use({ key, caller, ref }: CalledConnection): Promise<void> | undefined {
      named({ key, caller, ref, since });
      admission.requireConnection(caller, ref);
      const options = requestedOptions(request);
      const { prepared } = context;
      if (prepared === undefined) rates.take?.(caller.keyId, ref, since);
      const found = (one: LiveConnection): Promise<void> | undefined => {
        const isFirst = prepared === undefined && isUseRecorded(one);
        const use = isFirst ? uses.begin(context, { live: one, caller, since }) : prepared?.use;
        const call = prepareCall(parts, context, { since, caller, live: one, key, options, use });
        judgeHead(admission, call, request);
        const waits = quotaWait(quotas, call, request);
        const spent = waits === undefined ? spend(admission, call) : waits.then(() => spend(admission, call));
        return spent === undefined ? void ready(call) : spent.then(() => ready(call));
      };
      const { token, subject } = options;
      const held = subject === undefined ? live.peek(ref, undefined, token) : undefined;
      if (held !== undefined) return found(held);
      return live.get(ref, { token, subject }).then(found, async (error: unknown) => {
        if (error instanceof Fault) await hints.add(error, caller);
        throw error;
      });
    }

    try {
      requireMethod(request);
      const authenticated = sources.callerOf(context);
      const finding = authenticated instanceof Promise ? authenticated.then(find) : find(authenticated);
      finding?.catch(failed);
    } catch (error) {
      failed(error);
    }
  }

  function peek(context: CallContext): ProviderCall | Promise<void> | undefined {
    const since = performance.now();
    const wanted = sources.peek(context);
    if (wanted === undefined || wanted instanceof Promise) return wanted;
    const { caller, key, ref, options } = wanted;
    const { token, subject } = options;
    // The token of a user is verified on the full path.
    if (subject !== undefined) return undefined;
    const held = live.peek(ref, wanted.slot, token);
    // The error is reported by the full path. To ask again for a token that expired on arrival would renew it once more.
    if (held === undefined) return live.get(ref, { token }).then(() => requireHeld(live.peek(ref, undefined, token)));
    // A request that may have to wait for the provider's limit takes the full path.
    if (isUseRecorded(held) || held.provider.quota !== undefined) return undefined;
    if (wanted.slot !== held.slot) wanted.slot = held.slot;
    const call = prepareCall(parts, context, { since, caller, live: held, key, options, use: undefined });
    call.verdict = admission.judge(call, context.request);
    // The full path refuses, and reads bodies.
    return isAllowed(call.verdict) ? call : undefined;
  }

  return {
    begin,
    peek,
    admit: (call) => admitCall(parts, call),
    requireAllowedBody: (call, content) => requireAllowedBody(admission, call, content),
    async again(context, before, content) {
      const caller = context.caller && admission.callerNow(context.caller);
      const ready = await prepareAgain(begin, { ...context, caller }, before);
      await requireAllowedBody(admission, ready, content);
      return ready;
    },
    spend: (call) => admission.spend(call),
    withNewCredentials: (context, refused) => withNewCredentials(parts, context, refused),
    admittedAgain: ({ request }, repeated, before) => admittedAgain(admission, request, { repeated, before }),
    reloadConnection: (call) => reloadConnection(parts, call),
    outgoingRequest: (call, proxied, content) => {
      const nowMs = world.now();
      return outgoingRequestOf({ call, proxied, content, nowMs, providerNonce: nonces.nextFor(call) });
    },
    noteResponse(call, answer) {
      if (call.live.provider.quota !== undefined) quotas.noteResponse(call.live, call.proxied.path, answer);
      if (call.live.provider.mcp !== undefined) noteAnswer(mcp, call, answer);
      return nonces.noteResponse(call, answer);
    },
  };
}

interface OutgoingCall extends Pick<OutgoingRequest, "proxied" | "content" | "nowMs" | "providerNonce"> {
  readonly call: ProviderCall;
}

const outgoingRequestOf = ({ call, proxied, content, nowMs, providerNonce }: OutgoingCall): OutgoingRequest => ({
  proxied,
  scheme: call.origin.scheme,
  host: call.host,
  basePath: call.basePath,
  attachment: call.attachment,
  stamp: call.stamp,
  ending: call.ending,
  proxy: call.proxy,
  wantsPlain: isReflectionGuarded(call.live.integration),
  content,
  nowMs,
  nonce: newNonce,
  providerNonce,
});

/** Prepares a call a second time, with the key, the limits and the connection of now. */
function prepareAgain(
  begin: ProviderCalls["begin"],
  { request, response, alias, forward, listener, caller, socket, message }: ObservedCall,
  prepared: ProviderCall,
): Promise<ProviderCall> {
  const { promise, resolve, reject } = Promise.withResolvers<ProviderCall>();
  const context: ObservedCall = {
    request,
    response,
    alias,
    forward,
    caller,
    message,
    prepared,
    ...(listener !== undefined && { listener }),
    ...(socket !== undefined && { socket }),
  };
  begin(context, { named: () => {}, ready: resolve, fail: reject });
  return promise;
}

const isAllowed = (verdict: ProviderCall["verdict"]): boolean =>
  verdict === undefined || (verdict.outcome === "allowed" && !needsBody(verdict));

/** Throws if policies refuse a call. A call whose body decides is judged again once the body was read. */
function judgeHead(admission: Admission, call: ProviderCall, request: FrontHead): void {
  call.verdict = admission.judge(call, request);
  if (call.verdict !== undefined && !needsBody(call.verdict)) admission.enforce(call, call.verdict);
}

/** Counts a call. One whose body decides is counted once it was judged, and a held one once it is sent. */
const spend = (admission: Admission, call: ProviderCall): Promise<void> | undefined =>
  needsBody(call.verdict) || isHeld(call.verdict) ? undefined : admission.spend(call);

function admitCall(
  { rates, admission }: Pick<ProviderCallsOptions, "rates" | "admission">,
  call: ProviderCall,
): boolean {
  const { caller, ref, since, verdict } = call;
  const { tryTake } = rates;
  if (tryTake !== undefined && (ref === undefined || !tryTake(caller.keyId, ref, since))) return false;
  if (!admission.trySpend(caller)) return false;
  if (verdict !== undefined) admission.enforce(call, verdict);
  return true;
}

function requireAllowedBody(admission: Admission, call: ProviderCall, content: Uint8Array): Promise<void> | undefined {
  if (!needsBody(call.verdict)) return undefined;
  call.verdict = admission.judgeWithBody(call, content);
  try {
    if (call.verdict !== undefined) admission.enforce(call, call.verdict);
  } catch (error) {
    throw asRpcFault(call, content, error);
  }
  return isHeld(call.verdict) ? undefined : admission.spend(call);
}

async function withNewCredentials(
  parts: Pick<ProviderCallsOptions, "live" | "cache" | "admission">,
  context: CallContext,
  { since, caller, options, use, proxied, live: refused }: ProviderCall,
): Promise<ProviderCall | undefined> {
  const live = await parts.live.replacementOf(refused, { subject: options.subject });
  return live && prepareCall(parts, context, { since, caller, live, key: proxied.key ?? "", options, use });
}

/** The repetition was counted with the first attempt: here it counts only if policies refuse it. */
function admittedAgain(admission: Admission, request: FrontHead, { repeated, before }: RepeatedCall): ProviderCall {
  const caller = admission.callerNow(repeated.caller);
  const isApproved = isHeld(before.verdict) && before.host === repeated.host && before.basePath === repeated.basePath;
  // What was approved is sent as it was shown.
  const { rawHeaders } = isApproved ? before.proxied : repeated.proxied;
  const call = { ...repeated, caller, proxied: { ...repeated.proxied, rawHeaders, memo: undefined } };
  const { ref } = call.live.connection;
  requireScope(caller, Scope.PROXY);
  if (ref !== undefined) admission.requireConnection(caller, ref);
  admission.requireRequest(call);
  const verdict = admission.judge(call, request);
  if (verdict !== undefined && verdict.outcome !== "allowed") admission.enforce(call, verdict);
  if (verdict?.outcome === "held" && !isApproved) {
    throw new Fault(
      "denied_by_policy",
      `${holdersText(verdict.by)} must be answered by a person; send the request again`,
    );
  }
  call.verdict = verdict;
  return call;
}

interface RepeatedCall {
  readonly repeated: ProviderCall;
  /** The call that the provider has refused. */
  readonly before: ProviderCall;
}

async function reloadConnection(
  { live, world }: Pick<ProviderCallsOptions, "live" | "world">,
  { live: { connection } }: ProviderCall,
): Promise<LiveConnection | undefined> {
  try {
    return connection.ref === undefined ? undefined : await live.get(connection.ref);
  } catch (err) {
    // The response has already arrived, and continues without the connection that could not be read.
    world.log.debug("could not read the connection again", { err });
    return undefined;
  }
}

/** Returns the wait for the provider's limit; undefined if there is none. */
const quotaWait = (
  quotas: Pick<Quotas, "enter">,
  { live, proxied }: ProviderCall,
  request: FrontHead,
): Promise<void> | undefined =>
  live.provider.quota === undefined ? undefined : quotas.enter(live, quotaRequestOf(request, proxied.path));

/** A caller marks requests that can wait, such as those of its own syncs. */
const quotaRequestOf = ({ headers }: FrontHead, path: string): QuotaRequest =>
  headers["latchkey-priority"] === "background"
    ? { path, priority: "background", patienceMs: 2_000 }
    : { path, priority: "interactive", patienceMs: 10_000 };

/** Rejects what is of no use to ask for again. */
function requireHeld(held: LiveConnection | undefined): void {
  if (held === undefined) throw new Error("the connection is not in memory, or has expired");
}

function requireMethod({ method = "" }: FrontHead): void {
  // A TRACE response repeats the request with its credentials.
  if (method !== "TRACE" && method !== "CONNECT") return;
  throw new Fault("method_not_allowed", `${method} is not allowed for providers`, {
    metadata: { allow: allowedMethods },
  });
}

/** Prepares a call of a live connection. Throws for a request that must not be sent. */
function prepareCall(
  { cache, admission }: Pick<ProviderCallsOptions, "cache" | "admission">,
  { request, alias, forward, message }: CallContext,
  { since, caller, live, key, options, use }: FoundCall,
): ProviderCall {
  const cached = cache.of(live);
  const { attachment, binding, ref, state, responses, integrationCount, shortestSecret, stamp, ending, only } = cached;
  const { mcp } = live.provider;
  const isAlias = alias !== undefined;
  const { address, path } = addressOf({ request, mcp, isAlias, forward, binding, only, options });
  const { method = "GET" } = request;
  const counted = method === "OPTIONS" ? countedForward(request.rawHeaders) : request.rawHeaders;
  if (counted === "wrong") throw new Fault("invalid_headers", "Max-Forwards must be one number");
  const isLastHop = counted === "none";
  const rawHeaders = isLastHop ? request.rawHeaders : counted;
  const { memo } = request;
  // No field is withheld because of a key that the request does not have.
  const withheld = key === "" ? undefined : key;
  const proxied = { method, path, rawHeaders, memo, body: bodyOf(request), key: withheld, isHttp2: isStream(request) };
  const origin = cache.originFor(cached, address);
  const { host } = cached;
  const { basePath } = address;
  use?.noteTarget({ host, basePath, path, attachment, key });
  const { proxy } = live.provider;
  // Written out: there is one object for each request, and a spread costs more than the rest of the function.
  const call = {
    since,
    caller,
    live,
    attachment,
    ref,
    state,
    responses,
    integrationCount,
    shortestSecret,
    stamp,
    ending,
    binding,
    proxied,
    options,
    address,
    basePath,
    proxy,
    origin,
    host,
    use,
    message,
    isLastHop,
    verdict: undefined,
  };
  admission.requireRequest(call);
  return call;
}
