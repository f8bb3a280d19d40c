import { Fault } from "../../base/fault.ts";
import type { CallerAudience, CallerOrigin } from "../../core/access/audience.ts";
import { type CallerLimits, compileLimits, type LimitedRequest } from "../../core/access/limits.ts";
import { limitableScopes, scopeName } from "../../core/scopes.ts";
import { Scope } from "../../gen/latchkey/v1/access_pb.ts";
import type { Key } from "../../gen/latchkey/v1/environment_pb.ts";

/** A caller: its key and what the key may do. */
export interface Caller {
  /** For a person who is signed in to the dashboard, their name. */
  readonly keyId: string;
  /** Undefined for a control key, which belongs to no environment. */
  readonly environment: string | undefined;
  readonly scopes: ReadonlySet<Scope>;
  /** Tells the key from a later one with the same ID; undefined where no key of this process proves the caller. */
  readonly keyMark?: string | undefined;
  /** Undefined for a key. */
  readonly session?: CallerSession | undefined;
  /** How an edge without a key has proven who it is. */
  readonly edge?: EdgeIdentity | undefined;
  /** How another caller without a key has proven who it is. */
  readonly identity?: CallerIdentity | undefined;
  /** A page of the dashboard sends the key itself, for this one call. */
  readonly isFromPage?: boolean;
  /** What a limited key or an access session may use. Such a caller is refused wherever limits are not checked. */
  readonly limits?: CallerLimits | undefined;
  readonly accessSession?: CallerAccessSession | undefined;
  /**
   * The end user that the caller is. Without limits that name connections, it may use those of this user alone. Only
   * the MCP endpoint takes such callers.
   */
  readonly endUserId?: string;
}

/** The access session of a caller. */
export interface CallerAccessSession {
  readonly id: string;
  /** Expiry of the session, or of the key that has created it. */
  expiresAtMs: number;
  /** Set once the session has ended or was dropped from memory: then its token must be looked up again. */
  isStale: boolean;
  /** From where the session may be used; undefined: from everywhere. */
  readonly audience: CallerAudience | undefined;
  /** Undefined: any number of requests. */
  readonly budget: RequestBudget | undefined;
  /** Counts its requests; undefined at an edge. */
  readonly use?: CallerUse;
}

/** Counts the requests of a session on this replica. */
export interface CallerUse {
  /** A request was admitted. */
  noteRequest(): void;
  /** A request was refused by limits, policies or the budget. */
  noteRefusal(): void;
  /** A tool was called. The request is counted apart. */
  noteTool(called: CalledToolName, isRefused: boolean): void;
}

export interface CalledToolName {
  /** Empty: the tool is one of Latchkey's own endpoint. */
  readonly integration: string;
  readonly tool: string;
}

/** The requests that a session may still send. */
export interface RequestBudget {
  /** Takes one that this process holds; false if it holds none. */
  tryTake(): boolean;
  /** Takes one. Resolves to false if the budget is used up. */
  take(): Promise<boolean>;
}

/** The proven identity of a caller that has no key. */
export interface CallerIdentity {
  readonly kind: "service_account" | "spiffe" | "certificate" | "unix" | "user";
  /** `shop/checkout@cluster`, a SPIFFE ID, the name in the certificate, `uid 1000` or the path of a Unix socket. */
  readonly name: string;
}

/** The proven identity of an edge that has no key. */
export interface EdgeIdentity {
  readonly kind: "service_account" | "certificate";
  /** `system:serviceaccount:shop:checkout`, or the name in the certificate. */
  readonly name: string;
  /** Environments that the edge may follow; never empty. */
  readonly environments: readonly string[];
  readonly endsAtMs: number;
}

/** The browser session of a caller. */
export interface CallerSession {
  readonly id: string;
  /** Undefined for a session of a key. */
  readonly person: string | undefined;
  /** All environments of the session: a person may have several, and a call is made in one. Undefined: every one. */
  readonly environments: readonly string[] | undefined;
}

/** Returns the caller that sends a key. A limited key has no scope that reaches beyond limits, whatever was stored. */
export function callerOfKey({ id, environment, scopes, limits: given }: Key, keyMark?: string): Caller {
  const limits = compileLimits(given);
  return {
    keyId: id,
    environment: environment === "" ? undefined : environment,
    scopes: new Set(limits === undefined ? scopes : scopes.filter((scope) => limitableScopes.has(scope))),
    ...(keyMark !== undefined && { keyMark }),
    ...(limits && { limits }),
  };
}

/** Throws for a limited caller. Called wherever the limits of callers are not checked. */
export function requireUnlimited({ limits, accessSession }: Caller): void {
  if (limits === undefined && accessSession === undefined) return;
  throw new Fault(
    "not_in_session",
    accessSession === undefined
      ? "a limited key may not do this; send a key without limits"
      : "an access session may not do this; send a key",
  );
}

/** Returns a name for what a caller begins. Access sessions have names of their own; a later key has another one. */
export const starterOf = ({ keyId, keyMark, accessSession, identity }: Caller): string =>
  accessSession !== undefined
    ? `session ${accessSession.id}`
    : identity !== undefined
      ? keyId
      : `key ${keyId} ${keyMark ?? ""}`;

type LimitedCaller = Pick<Caller, "limits" | "accessSession" | "identity">;

/** Returns the name of what has limits, for messages. */
function holderOf({ accessSession, identity }: Omit<LimitedCaller, "limits">): string {
  if (accessSession !== undefined) return "access session";
  return identity === undefined ? "key" : "identity";
}

/** Throws for an access session: it changes nothing, and sees no other session. */
export function requireKey({ accessSession }: Caller): void {
  if (accessSession === undefined) return;
  throw new Fault("not_in_session", "an access session may not do this; send a key");
}

/** Throws if a limited caller may not use a connection. */
export function requireConnectionWithin(
  { limits, accessSession, identity }: LimitedCaller,
  ref: { readonly integration: string; readonly id: string },
): void {
  if (limits === undefined || limits.admitsConnection(ref)) return;
  const holder = holderOf({ accessSession, identity });
  throw new Fault("not_in_session", `the limits of this ${holder} do not include the connection`);
}

/**
 * Throws if a limited caller may not run scripts: their requests are not held to methods, hosts and paths. `tool` is
 * the name by which an action is called as a tool; undefined: it is called otherwise.
 */
export function requireScriptsWithin({ limits }: Pick<Caller, "limits">, tool?: string): void {
  if (limits === undefined) return;
  const isWithinTools = !limits.limitsTools || (tool !== undefined && limits.admitsTool(tool));
  if (!limits.limitsRequests && isWithinTools) return;
  throw new Fault("not_in_session", "scripts run only within limits that name connections alone");
}

/**
 * Returns whether a caller may read records. `connections:read` alone shows a limited caller no data of its
 * connections, and records come from requests that are not held to the methods, hosts and paths of limits.
 */
export const mayReadRecords = (caller: Caller): boolean =>
  mayDo(caller, Scope.CONNECTIONS_READ) &&
  (caller.limits === undefined || (mayDo(caller, Scope.SYNCS) && !caller.limits.limitsRequests));

/** Throws if a caller may not read the records of a connection. `tool` is the name of the tool that reads them. */
export function requireRecordsWithin(
  caller: Caller,
  ref: { readonly integration: string; readonly id: string },
  tool?: string,
): void {
  requireConnectionWithin(caller, ref);
  requireScriptsWithin(caller, tool);
  requireScope(caller, Scope.CONNECTIONS_READ);
  if (caller.limits !== undefined) requireScope(caller, Scope.SYNCS);
}

/** Returns whether the limits of a caller include a tool. */
export const mayCallTool = ({ limits }: Pick<Caller, "limits">, tool: string): boolean =>
  limits === undefined || limits.admitsTool(tool);

/** Throws unless the limits of a caller include a tool. */
export function requireToolWithin(caller: LimitedCaller, tool: string): void {
  if (mayCallTool(caller, tool)) return;
  throw new Fault("not_in_session", `the limits of this ${holderOf(caller)} do not include the tool`);
}

/** Throws unless limits admit a request to a provider. */
export function requireRequestWithin(
  { limits, accessSession, identity }: LimitedCaller,
  request: LimitedRequest,
): void {
  const refused = limits?.refusalOf(request);
  if (refused === undefined) return;
  const holder = holderOf({ accessSession, identity });
  throw new Fault("not_in_session", `the limits of this ${holder} do not include the ${refused} of the request`);
}

/** Throws if an access session may not be used from where a request comes. */
export function requireAudience({ accessSession }: Pick<Caller, "accessSession">, origin: CallerOrigin): void {
  const refused = accessSession?.audience?.refusalOf(origin);
  if (refused === undefined) return;
  throw new Fault(
    "not_in_session",
    refused === "relay"
      ? "an edge has relayed this request, and its broker cannot check the audience of the access session; send the request to a broker itself"
      : `this access session may not be used from this ${refused}`,
  );
}

/** Takes a request from the caller's budget. Returns undefined if that needs no promise; rejects if it is used up. */
export function spendRequest(caller: Pick<Caller, "accessSession">): Promise<void> | undefined {
  const budget = caller.accessSession?.budget;
  return trySpendRequest(caller) || budget === undefined ? undefined : takeFrom(budget, caller.accessSession?.use);
}

/** Does the same only if that needs no promise; returns whether it did. */
export function trySpendRequest({ accessSession }: Pick<Caller, "accessSession">): boolean {
  if (accessSession?.budget?.tryTake() === false) return false;
  accessSession?.use?.noteRequest();
  return true;
}

async function takeFrom(budget: RequestBudget, use: CallerUse | undefined): Promise<void> {
  if (await budget.take()) {
    use?.noteRequest();
    return;
  }
  throw new Fault("not_in_session", "the budget of this access session is used up");
}

/** Scopes that bring credentials to the caller. */
const ofCredentials: ReadonlySet<Scope> = new Set([Scope.CREDENTIALS_READ, Scope.EDGE]);

/**
 * Returns whether a caller has a scope. A control key with `admin` may do everything. A browser session never reads
 * credentials.
 */
export const mayDo = ({ environment, scopes, session }: Caller, scope: Scope): boolean =>
  ((environment === undefined && scopes.has(Scope.ADMIN)) || scopes.has(scope)) &&
  (session === undefined || !ofCredentials.has(scope));

/** Throws unless a caller has a scope. `UNSPECIFIED` accepts every caller. */
export function requireScope(caller: Caller, scope: Scope): void {
  if (caller.edge !== undefined && scope !== Scope.EDGE) {
    throw new Fault("missing_scope", `${caller.keyId} has the scope edge only`);
  }
  if (scope === Scope.UNSPECIFIED || mayDo(caller, scope)) return;
  if (scope === Scope.CREDENTIALS_READ) requireKeyItself(caller, "credentials and other secrets are not shown");
  throw new Fault("missing_scope", `${nameOfCaller(caller)} does not have the scope ${scopeName(scope)}`);
}

/** Returns the name of a caller for messages. */
export function nameOfCaller({ keyId, identity, session }: Caller): string {
  if (session?.person !== undefined) return session.person;
  return identity === undefined ? `the key "${keyId}"` : `the identity ${keyId}`;
}

/** Throws for a browser session: a person at an open browser may not have the key. */
export function requireKeyItself({ session }: Caller, what: string): void {
  if (session === undefined) return;
  throw new Fault("key_required", `${what} to a browser session: send the key itself with this call`);
}
