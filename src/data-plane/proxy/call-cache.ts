import type { Attachment } from "../../auth/attachment.ts";
import { Fault } from "../../base/fault.ts";
import { createNote } from "../../base/memo.ts";
import type { World } from "../../base/world.ts";
import type { AttachedCredentials, Attachments } from "../../broker/credentials/attachments.ts";
import type { LiveConnection } from "../../broker/credentials/live-connections.ts";
import type { IntegrationCount } from "../../broker/traffic/traffic-counts.ts";
import type { Address, Binding } from "../../core/outgoing/binding.ts";
import { connectionStateFields } from "../../core/outgoing/connection-state-fields.ts";
import { endingOf } from "../../core/outgoing/outgoing.ts";
import type { ConnectionRef } from "../../gen/latchkey/v1/connection_pb.ts";
import { type AdmittedOrigin, parseOrigin } from "../../relay/origin.ts";
import type { Upstream } from "../../relay/upstream.ts";
import type { CallNotes } from "./call-notes.ts";
import { shortestSecretIn } from "./path-secrets.ts";
import type { ProxyCount, ResponseCounter } from "./proxy-count.ts";

/** Values that all calls of a live connection share: its credentials, and its last target. */
export interface CachedCall {
  readonly attachment: Attachment;
  readonly binding: Binding;
  /** With its state, so that a request does not read the connection itself: a thousand in turn cost 0.4 µs each. */
  readonly ref: ConnectionRef | undefined;
  /** Headers for responses, about the state of the connection. */
  readonly state: readonly string[];
  /** Counters of responses, by kind of credentials. */
  readonly responses: ResponseCounter;
  /** Counts the requests of the integration. */
  readonly integrationCount: IntegrationCount;
  /** A path that is shorter holds no credentials. */
  readonly shortestSecret: number;
  /** Text of the attachment's headers and Latchkey's `Via`; undefined: the text differs for each request. */
  readonly ending: string | undefined;
  /** The address of all requests, unless they name another one. */
  readonly only: Address | undefined;
  readonly untilMs: number | undefined;
  readonly own: AttachedCredentials;
  /** Identity of the attachment, for caching. */
  readonly stamp: object;
  address: Address | undefined;
  origin: AdmittedOrigin | undefined;
  /** The value of a Host header for the last origin. */
  host: string;
}

export interface CallCache {
  of(live: LiveConnection): CachedCall;
  /** Returns the origin of an address, and remembers both in `cached`. Throws for a host that is not allowed. */
  originFor(cached: CachedCall, address: Address): AdmittedOrigin;
}

interface CallCacheOptions {
  readonly attachments: Attachments;
  readonly upstream: Pick<Upstream, "admit">;
  readonly count: Pick<ProxyCount, "responsesOf">;
  readonly notes: Pick<CallNotes, "countOf">;
  readonly world: Pick<World, "now">;
}

export function createCallCache({ attachments, upstream, count, notes, world }: CallCacheOptions): CallCache {
  const calls = createNote<CachedCall>();
  /** Origins are checked once for each connection; addresses once for each socket. */
  const admitted = new WeakMap<AttachedCredentials, Map<string, AdmittedOrigin>>();

  function admit(attached: AttachedCredentials, { origin: href }: Address): AdmittedOrigin {
    const known = admitted.get(attached)?.get(href);
    if (known !== undefined) return known;
    const parsed = parseOrigin(href);
    if (parsed === undefined) throw new Fault("host_not_allowed", "the base URL of the provider is not valid");
    const { clientCertificate } = attached.attachment;
    const origin = upstream.admit({ ...parsed, clientCertificate });
    const all = admitted.get(attached) ?? new Map<string, AdmittedOrigin>();
    admitted.set(attached, all.set(href, origin));
    return origin;
  }

  return {
    of(live) {
      const { slot } = live;
      const known = slot && calls.of(slot);
      if (known !== undefined && (known.untilMs === undefined || known.untilMs > world.now())) return known;
      const own = attachments(live);
      const { attachment, binding } = own;
      const made: CachedCall = {
        ref: live.connection.ref,
        state: connectionStateFields(live.connection),
        ending: endingOf(attachment),
        responses: count.responsesOf(live.credentials.kind.case ?? "none"),
        integrationCount: notes.countOf(live),
        shortestSecret: shortestSecretIn(attachment),
        only: binding.only,
        untilMs: attachment.kind === "fixed" ? attachment.untilMs : undefined,
        own,
        attachment,
        binding,
        stamp: {},
        address: undefined,
        origin: undefined,
        host: "",
      };
      // Evicted in the meantime: do not cache for it.
      return slot?.live === undefined ? made : calls.keep(slot, made);
    },
    originFor(cached, address) {
      if (cached.origin !== undefined && cached.address === address) return cached.origin;
      const origin = admit(cached.own, address);
      cached.address = address;
      cached.origin = origin;
      cached.host = origin.authority;
      return origin;
    },
  };
}
