import type { DescMethod } from "@bufbuild/protobuf";
import { base64Decode } from "@bufbuild/protobuf/wire";
import { type ContextValues, createContextKey, type HandlerContext } from "@connectrpc/connect";
import { Fault } from "../../base/fault.ts";
import type { EdgeAccess } from "../../broker/edges/open.ts";
import { isTokenForm } from "../../broker/identities/token-verifier.ts";
import type { Access } from "../../broker/setup/access.ts";
import { type Caller, requireAudience, requireScope, requireUnlimited } from "../../broker/setup/caller.ts";
import type { BrowserSessions } from "../../broker/sign-in/browser-sessions.ts";
import type { CallerOrigin } from "../../core/access/audience.ts";
import { Scope } from "../../gen/latchkey/v1/access_pb.ts";
import { type CallPeer, peerKey } from "./call-peer.ts";
import { limitedMethods } from "./limited-methods.ts";
import { scopeOf } from "./method-scope.ts";
import { claimsSession, sessionHeader, sessionProofOf } from "./session-proof.ts";

/** Checks the head of a call before its body is read. Throws the error for the caller. */
export type Gate = (context: HandlerContext) => void | Promise<void>;

/** The caller. Set for every method that requires a scope. */
export const callerKey = createContextKey<Caller | undefined>(undefined, { description: "the caller" });

/** Refuses all calls except health and reflection until the store is ready. */
export const refuseUntilReady: Gate = ({ method }) => {
  if (scopeOf(method) !== undefined) throw new Fault("not_ready", "Latchkey is starting", { retryAfterSeconds: 1 });
};

/** Tells callers by their key or browser session. */
export interface CallerSources {
  readonly access: Access;
  readonly browserSessions: BrowserSessions;
  /** The port serves the dashboard, so sessions are accepted. `only`: a key alone is not. */
  readonly sessions: "none" | "also" | "only";
  readonly edgeAccess: EdgeAccess;
}

/** Checks the scope that the proto names for each method. Health and reflection name none, and are open to all. */
export const requireCaller =
  (sources: CallerSources): Gate =>
  async ({ method, requestHeader, values }) => {
    values.set(callerKey, await authorize({ sources, method, header: requestHeader, values, isUse: true }));
  };

interface Authorization {
  readonly sources: CallerSources;
  readonly method: DescMethod;
  readonly header: Headers;
  readonly values: ContextValues;
  /** False for a repeated check. */
  readonly isUse: boolean;
}

/** Returns the caller after checking that it may call the method; undefined if the method is open to all. */
export async function authorize(call: Authorization): Promise<Caller | undefined> {
  const { sources, method, values } = call;
  const needed = scopeOf(method);
  if (needed === undefined) return undefined;
  let caller: Caller | undefined;
  try {
    caller = await callerIn(call, needed);
    requireScope(caller, needed);
    if (!limitedMethods.has(method)) requireUnlimited(caller);
    if (caller.accessSession !== undefined) requireAudience(caller, originOf(values.get(peerKey)));
    return caller;
  } catch (error) {
    if (needed === Scope.EDGE) {
      sources.edgeAccess.refused({ identity: caller?.keyId, error, peer: values.get(peerKey)?.address ?? "" });
    }
    throw error;
  }
}

const originOf = (peer: CallPeer | undefined): CallerOrigin => ({
  listener: "control",
  address: peer?.address,
  certificateNames: () => peer?.certificate()?.names ?? [],
  // Edges relay to data listeners alone.
  isRelayed: false,
});

async function callerIn({ sources, header, values, isUse }: Authorization, needed: Scope): Promise<Caller> {
  const { access, browserSessions, sessions } = sources;
  const hasKey = header.has("authorization");
  // Only edges have an identity without a key, and only where they follow.
  if (needed === Scope.EDGE && sessions !== "only") {
    const edge = await edgeIn(sources.edgeAccess, { header, peer: values.get(peerKey) });
    if (edge !== undefined) return edge;
  }
  const withoutSession = () =>
    (hasKey ? undefined : callerOfPeer(access, { header, values })) ?? access.authenticate(bearerOf(header));
  if (sessions === "none" || (sessions === "also" && hasKey && !header.has(sessionHeader))) return withoutSession();
  if (!claimsSession(header)) {
    if (sessions === "also") return withoutSession();
    throw new Fault("signed_out", "this listener serves only browsers that are signed in to the dashboard");
  }
  const ofSession = await browserSessions.authenticate({ ...sessionProofOf(header), isUse });
  // A page that sends the key itself, too, does what a session may not, in this one call.
  return hasKey ? { ...(await access.authenticate(bearerOf(header))), isFromPage: true } : ofSession;
}

/** Returns the caller that the connection of a call proves; undefined if it proves none. */
function callerOfPeer(
  { callerOfPeer: of }: Access,
  { header, values }: Pick<Authorization, "header" | "values">,
): Caller | Promise<Caller> | undefined {
  // A page could make the browser of an identity call.
  if (header.has("origin") || header.has("sec-fetch-site")) return undefined;
  const socket = values.get(peerKey)?.socket;
  return socket && of(socket);
}

/** Returns the caller with the token of a service account, or else with a client certificate. */
function edgeIn(
  edgeAccess: EdgeAccess,
  { header, peer }: { readonly header: Headers; readonly peer: CallPeer | undefined },
): Caller | Promise<Caller> | undefined {
  if (header.has("authorization")) {
    const secret = bearerOf(header);
    return isTokenForm(secret) ? edgeAccess.callerWithToken(secret) : undefined;
  }
  const certificate = peer?.certificate();
  return certificate && edgeAccess.callerWithCertificate(certificate);
}

export function bearerOf(header: Headers): string {
  const value = header.get("authorization");
  if (value === null) throw new Fault("missing_auth_header", "send a key: authorization: Bearer <key>");
  const [, secret] = /^Bearer ([\x21-\x7e]+)$/i.exec(value) ?? [];
  if (secret === undefined) throw new Fault("malformed_auth_header", "the authorization header must be: Bearer <key>");
  return secret;
}

/** Refuses methods that are not implemented, with any arguments. */
export const requireImplemented =
  (implemented: ReadonlySet<DescMethod>): Gate =>
  ({ method }) => {
    if (scopeOf(method) === undefined || implemented.has(method)) return;
    throw new Fault("not_implemented", `this version does not implement ${method.parent.typeName}/${method.name}`);
  };

/** Checks the base64 of bytes in a head: headers whose names end in `-bin`, and the message of a Connect GET. */
export const requireBase64: Gate = ({ requestHeader, requestMethod, url }) => {
  for (const [name, value] of requestHeader) {
    if (!name.endsWith("-bin")) continue;
    // Repeated headers are joined by commas (gRPC over HTTP/2, custom metadata).
    for (const part of value.split(",")) {
      if (!isBase64(part.trim())) throw new Fault("invalid_headers", `the header ${name} must be base64`);
    }
  }
  if (requestMethod !== "GET") return;
  const query = new URL(url).searchParams;
  if (query.get("base64") === "1" && !isBase64(query.get("message") ?? "")) {
    throw new Fault("invalid_query_params", "the message must be base64");
  }
};

function isBase64(text: string): boolean {
  try {
    base64Decode(text);
    return true;
  } catch {
    return false;
  }
}
