import type { Socket } from "node:net";
import { unixPathOf } from "../../base/http/unix-path.ts";
import type { World } from "../../base/world.ts";
import {
  type GrantSubject,
  grantFor,
  type IdentityGrant,
  type IdentityRules,
  type ProvenSubject,
} from "../../core/identities/identity-rules.ts";
import { readSpiffeId } from "../../core/identities/spiffe.ts";
import type { Caller } from "../setup/caller.ts";
import type { AdmittedCallers } from "./admitted-callers.ts";
import { type PeerCertificate, peerCertificateOf } from "./peer-certificate.ts";
import { noRuleFor, refusedIdentity } from "./refusals.ts";
import type { SocketOwners } from "./socket-owners.ts";

/**
 * Returns the caller that a connection itself proves: by its client certificate, its Unix socket, or the user who has
 * opened it. Undefined if connections prove nothing here. Throws, or rejects with, `identity_refused`.
 */
export type CallerOfPeer = (socket: Socket) => Caller | Promise<Caller> | undefined;

interface PeerCallersOptions {
  readonly rules: IdentityRules;
  readonly owners: SocketOwners;
  readonly admitted: AdmittedCallers;
  readonly world: World;
}

const shownNames = 3;

/** Returns the callers of connections, by the rules of one configuration. */
export function createPeerCallers({ rules, owners, admitted, world }: PeerCallersOptions): CallerOfPeer {
  const { grants, certificateDomain } = rules;
  const known = new WeakMap<Socket, Caller>();
  /** What no rule asks about is not looked up. */
  const asks = (...kinds: readonly GrantSubject["kind"][]) =>
    grants.some(({ subject }) => kinds.includes(subject.kind));
  const [asksCertificates, asksUsers, asksAny] = [asks("spiffe", "certificate"), asks("uid"), grants.length > 0];

  function keep(socket: Socket, caller: Caller): Caller {
    known.set(socket, caller);
    return caller;
  }

  function callerWithCertificate(certificate: PeerCertificate): Caller {
    const { names, endsAtMs } = certificate;
    const shown = names.slice(0, shownNames).join(", ").slice(0, 300) || "a certificate without names";
    const proven = provenBy(certificate, rules, certificateDomain);
    const grant = grantFor(grants, proven);
    if (grant === undefined) throw noRuleFor(shown);
    if (proven.kind === "certificate" && countFitting(grants, names) > 1) {
      throw refusedIdentity("the certificate has several names of `identities.rules`; it must have exactly one");
    }
    if (endsAtMs <= world.now()) throw refusedIdentity(`the client certificate of ${shown} has expired`);
    return admitted.admit(proven, grant, { isValid: (nowMs) => endsAtMs > nowMs, issuer: undefined });
  }

  /** Connections of one user share a caller: what is cached for it serves all of them. */
  const byPlace = new Map<IdentityGrant, Caller>();
  function callerIn(proven: ProvenSubject): Caller | undefined {
    const grant = grantFor(grants, proven);
    if (grant === undefined) return undefined;
    const caller = byPlace.get(grant) ?? admitted.admit(proven, grant, always);
    byPlace.set(grant, caller);
    return caller;
  }

  async function callerByOwner(socket: Socket): Promise<Caller> {
    const uid = await owners.of(socket);
    if (uid === undefined) throw refusedIdentity("the user of this connection cannot be told; send a key");
    const caller = callerIn({ kind: "uid", uid });
    if (caller === undefined) throw noRuleFor(`the user ${uid} of this machine; send a key`);
    return keep(socket, caller);
  }

  return (socket) => {
    if (!asksAny) return undefined;
    const found = known.get(socket);
    if (found !== undefined && admitted.isCurrent(found)) return found;
    const certificate = asksCertificates ? peerCertificateOf(socket) : undefined;
    if (certificate !== undefined) return keep(socket, callerWithCertificate(certificate));
    const path = unixPathOf(socket);
    if (path === undefined) return asksUsers && socket.remoteAddress !== undefined ? callerByOwner(socket) : undefined;
    const caller = callerIn({ kind: "socket", path });
    return caller && keep(socket, caller);
  };
}

const always = { isValid: () => true, issuer: undefined };

/** A certificate with a SPIFFE ID of our trust domain is an X.509-SVID; all others are known by their names. */
function provenBy(
  { names }: PeerCertificate,
  { grants }: IdentityRules,
  certificateDomain: string | undefined,
): ProvenSubject {
  const uris = names.filter((name) => name.startsWith("URI:"));
  const [uri = ""] = uris;
  const id = readSpiffeId(uri.slice("URI:".length));
  // X.509-SVID, section 2: exactly one URI.
  if (id === undefined || uris.length !== 1 || id.trustDomain !== certificateDomain)
    return { kind: "certificate", names };
  const proven: ProvenSubject = { kind: "spiffe", id: id.text };
  return grantFor(grants, proven) === undefined ? { kind: "certificate", names } : proven;
}

/** Returns how many different names of rules a certificate has. */
const countFitting = (grants: readonly IdentityGrant[], names: readonly string[]): number =>
  new Set(
    grants.flatMap(({ subject }) =>
      subject.kind === "certificate" && names.includes(subject.name) ? [subject.name] : [],
    ),
  ).size;
