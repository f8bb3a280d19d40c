import { Scope } from "../../../gen/latchkey/v1/access_pb.ts";
import { scopeName } from "../../components/button.tsx";

/** The scopes of keys of an environment, with what each allows. */
export const environmentScopes: readonly (readonly [scope: Scope, meaning: string])[] = [
  [Scope.PROXY, "Send requests to providers through the proxy."],
  [Scope.CONNECTIONS_READ, "Read connections, webhooks, channels, runs, records and logs, but no credentials."],
  [Scope.CONNECTIONS_WRITE, "Import, change and delete connections, start connect sessions, replay deliveries."],
  [Scope.CREDENTIALS_READ, "Read the credentials of connections."],
  [Scope.INTEGRATIONS_READ, "Read integrations and providers."],
  [Scope.INTEGRATIONS_WRITE, "Create, change and delete integrations."],
  [Scope.SYNCS, "Trigger, start and pause syncs, and run actions."],
];

/** Scopes that a key has only if it was asked for. */
export const furtherScopes: readonly (readonly [scope: Scope, meaning: string])[] = [
  [Scope.APPROVALS_DECIDE, "Answer requests that policies hold for a person."],
];

/** The scopes of a key in a few words. */
export function scopesText(scopes: readonly Scope[]): string {
  if (scopes.includes(Scope.ADMIN)) return "Everything, in every environment";
  if (environmentScopes.every(([scope]) => scopes.includes(scope))) {
    const further = furtherScopes.filter(([scope]) => scopes.includes(scope)).map(([scope]) => scopeName(scope));
    return ["Everything in its environment", ...further].join(", ");
  }
  return scopes.map(scopeName).join(", ");
}
