import type { World } from "../../base/world.ts";
import type { IdentityGrant, ProvenSubject } from "../../core/identities/identity-rules.ts";
import { readAccountSubject } from "../../core/identities/service-account.ts";
import type { Caller, CallerIdentity } from "../setup/caller.ts";
import { callerOfIdentity } from "./identity-caller.ts";

/** Returns whether the proof of a caller still counts at a time. */
export type ProofCheck = (nowMs: number) => boolean;

/** Callers that have proven an identity, for as long as their proofs count. */
export interface AdmittedCallers {
  admit(proven: ProvenSubject, grant: IdentityGrant, proof: ProofCheck): Caller;
  isCurrent(caller: Caller): boolean;
}

export function createAdmittedCallers({ now }: Pick<World, "now">): AdmittedCallers {
  const proofs = new WeakMap<Caller, ProofCheck>();
  return {
    admit(proven, grant, proof) {
      const caller = callerOfIdentity(identityOf(proven, grant), grant);
      proofs.set(caller, proof);
      return caller;
    },
    isCurrent: (caller) => proofs.get(caller)?.(now()) === true,
  };
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
    case "certificate":
      return { kind, name: grant?.subject.kind === "certificate" ? grant.subject.name : (proven.names[0] ?? "") };
    case "uid":
      return { kind: "unix", name: `uid ${proven.uid}` };
    case "socket":
      return { kind: "unix", name: proven.path };
  }
}
