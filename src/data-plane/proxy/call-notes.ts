import type { FaultCode } from "../../base/fault.ts";
import type { World } from "../../base/world.ts";
import type { Audit } from "../../broker/audit/audit.ts";
import type { LiveConnection } from "../../broker/credentials/live-connections.ts";
import { outcomes } from "../../broker/traffic/day-series.ts";
import type { Traffic } from "../../broker/traffic/open.ts";
import type { RequestSubject } from "../../broker/traffic/request-ring.ts";
import type { IntegrationCount } from "../../broker/traffic/traffic-counts.ts";
import { createRelayedMessages } from "../mcp/relayed-messages.ts";
import { secretsOf, withoutSecrets } from "./path-secrets.ts";
import { proxyPrefix } from "./provider-call.ts";
import type { CallNaming, NotableCall, RelayedCall } from "./proxy-call.ts";

/** Notes requests that are over: in the series of their integration, and among the last requests. */
export interface CallNotes {
  /** Returns the counter of a connection's integration. */
  countOf(live: LiveConnection): IntegrationCount;
  /** `status` is 0 if the caller left first. `endMs` is of the monotonic clock. */
  note(call: NotableCall, status: number, endMs: number): void;
}

export interface CallNotesOptions {
  readonly traffic: Traffic;
  /** Undefined where there is no store. */
  readonly audit: Pick<Audit, "note"> | undefined;
  readonly world: World;
}

export function createCallNotes({ traffic, audit, world }: CallNotesOptions): CallNotes {
  const { counts, recent } = traffic;
  const { add } = recent;
  const messages = createRelayedMessages({ audit, counts, world });

  function noteRelayed(call: NotableCall, { relayed, status, endMs }: RelayedEnd): void {
    const { ready, sends, addedMicros, up, down, traceId, isTunnel } = relayed;
    const { since, ref, integrationCount, shortestSecret, proxied, caller } = ready;
    const { fault } = call;
    const addedMs = addedMicros / 1_000;
    const isError = status >= 500 || status === 429;
    integrationCount.add(endMs, {
      status,
      outcome: fault !== undefined ? outcomes.ownError : isError ? outcomes.providerError : outcomes.answered,
      addedMs: sends === 0 ? undefined : addedMs,
      wholeMs: call.isEndless ? undefined : endMs - since,
    });
    if (add === undefined) return;
    const { path, key = "" } = proxied;
    const query = path.indexOf("?");
    const length = query === -1 ? path.length : query;
    const mayHoldSecret = length >= shortestSecret || length >= key.length;
    add({
      sinceMs: since,
      endMs,
      ref: ref ?? nowhere,
      method: proxied.method,
      path: mayHoldSecret ? withoutSecrets(path, [key, ...secretsOf(ready.attachment)]) : path,
      status,
      errorCode: fault === undefined ? "" : fault.code,
      addedMs,
      attempts: sends,
      up,
      down,
      keyId: caller.keyId,
      traceId,
      isTunnel,
    });
  }

  /** Most integrations in refused requests exist, but a caller may write anything. */
  function countOfRefused(
    { ref: { environment, integration } }: CallNaming,
    code: FaultCode | undefined,
  ): IntegrationCount {
    return code !== undefined && isProof(code)
      ? counts.of(environment, integration)
      : counts.find(environment, integration);
  }

  function noteRefused({ context, fault }: NotableCall, { named, status, endMs }: RefusedEnd): void {
    const { caller, ref, key, since } = named;
    countOfRefused(named, fault?.code).add(endMs, {
      status,
      outcome: fault === undefined ? outcomes.answered : outcomes.ownError,
      addedMs: undefined,
      wholeMs: endMs - since,
    });
    const { method = "", url = "" } = context.request;
    const path = url.startsWith(`${proxyPrefix}/`) ? url.slice(proxyPrefix.length) : withoutOrigin(url);
    add?.({
      sinceMs: since,
      endMs,
      ref: {
        environment: ref.environment,
        integration: ref.integration.slice(0, maxNameLength),
        id: ref.id.slice(0, maxNameLength),
      },
      method,
      path: withoutSecrets(path, [key]),
      status,
      errorCode: fault?.code ?? "",
      addedMs: 0,
      attempts: 0,
      up: 0,
      down: 0,
      keyId: caller.keyId,
      traceId: "",
      isTunnel: false,
    });
  }

  return {
    countOf: ({ integration: { environment, key } }) => counts.of(environment, key),
    note(call, status, endMs) {
      const { relayed, named, fault } = call;
      const { accessSession } = (relayed?.ready ?? named)?.caller ?? {};
      if (fault !== undefined && refusals.has(fault.code)) accessSession?.use?.noteRefusal();
      if (relayed !== undefined) noteRelayed(call, { relayed, status, endMs });
      else if (named !== undefined) noteRefused(call, { named, status, endMs });
      messages.note(call, { status, endMs });
    },
  };
}

/** Errors of a request that its caller may not send. */
const refusals: ReadonlySet<FaultCode> = new Set(["not_in_session", "denied_by_policy", "approval_denied"]);

const nowhere: RequestSubject = { environment: "", integration: "", id: "" };

interface RelayedEnd {
  readonly relayed: RelayedCall;
  readonly status: number;
  readonly endMs: number;
}

interface RefusedEnd {
  readonly named: CallNaming;
  readonly status: number;
  readonly endMs: number;
}

/** As long as the names that can be stored. */
const maxNameLength = 255;

/** An absolute address may hold a user name and a password. */
const withoutOrigin = (url: string): string => url.replace(/^https?:\/\/[^/?#]*/i, "");

/** Errors that only an integration which exists can have. */
const proofs: ReadonlySet<FaultCode> = new Set([
  "unknown_connection",
  "reauthorization_required",
  "connection_unusable",
  "integration_misconfigured",
  "refresh_unavailable",
  "host_not_allowed",
]);
const isProof = (code: FaultCode): boolean => proofs.has(code);
