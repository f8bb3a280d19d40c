import type { World } from "../../base/world.ts";
import type { IdentityGrant, ProvenSubject, TokenIssuer } from "../../core/identities/identity-rules.ts";
import { readAccountSubject } from "../../core/identities/service-account.ts";
import type { Caller, CallerIdentity } from "../setup/caller.ts";
import { callerOfIdentity } from "./identity-caller.ts";

/** What proves a caller. */
export interface CallerProof {
  /** Returns whether it still counts at a time. */
  readonly isValid: (nowMs: number) => boolean;
  /** Undefined: the connection itself proves the caller. */
  readonly issuer: TokenIssuer | undefined;
}

/** Callers that have proven an identity, for as long as their proofs count. */
export interface AdmittedCallers {
  admit(proven: ProvenSubject, grant: IdentityGrant, proof: CallerProof): Caller;
  isCurrent(caller: Caller): boolean;
}

/** A caller that was admitted, and why. */
export interface AdmittedProof {
  readonly proven: ProvenSubject;
  readonly proof: CallerProof;
  readonly caller: Caller;
  /** The rules that have admitted it. */
  readonly by: AdmittedCallers;
}

/** What admitted callers have proven, by the identity that each has: copies of a caller share it. */
export type AdmittedProofs = WeakMap<CallerIdentity, AdmittedProof>;

export function createAdmittedCallers({ now }: Pick<World, "now">, all: AdmittedProofs): AdmittedCallers {
  const proofs = new WeakMap<Caller, CallerProof>();
  const admitted: AdmittedCallers = {
    admit(proven, grant, proof) {
      const identity = identityOf(proven, grant);
      const found = callerOfIdentity(identity, grant);
      const caller: Caller = proven.kind === "user" ? { ...found, endUserId: proven.subject } : found;
      proofs.set(caller, proof);
      all.set(identity, { proven, proof, caller, by: admitted });
      return caller;
    },
    isCurrent: (caller) => proofs.get(caller)?.isValid(now()) === true,
  };
  return admitted;
}

/** Returns the name of what was proven. No name is that of a key, and no two kinds share one. */
export function identityOf(proven: ProvenSubject, grant?: IdentityGrant): CallerIdentity {
  const { kind } = proven;
  switch (kind) {
    case "service_account": {
      const { namespace = "", name = "" } = readAccountSubject(proven.subject) ?? {};
      return { kind, name: `${namespace}/${name}@${proven.issuer}` };
    }
    case "spiffe":
      return { kind, name: proven.id };
    case "user":
      return { kind, name: `${proven.subject}@${proven.issuer}` };
    case "certificate":
      return { kind, name: grant?.subject.kind === "certificate" ? grant.subject.name : (proven.names[0] ?? "") };
    case "uid":
      return { kind: "unix", name: `uid ${proven.uid}` };
    case "socket":
      return { kind: "unix", name: proven.path };
  }
}
