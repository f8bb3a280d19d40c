import type { JsonObject } from "@bufbuild/protobuf";
import { Fault } from "../../base/fault.ts";
import { scopeName } from "../../core/scopes.ts";
import { Scope } from "../../gen/latchkey/v1/access_pb.ts";
import type { Provider } from "../../gen/latchkey/v1/provider_pb.ts";
import { boundConfigNames, changedConfigNames } from "./bound-config.ts";
import { type Caller, mayDo, requireKeyItself } from "./caller.ts";

interface CredentialChange {
  /** Fields that decide where stored credentials are sent, or who sees them. */
  readonly fields: readonly string[];
  /** Describes how to make the change without the scope; empty if there is no other way. */
  readonly otherwise: string;
}

/**
 * Requires the scope to read credentials for a change of where stored credentials are sent, or of who sees them: such a
 * change is equivalent to reading them. Does nothing when no such field changes.
 */
export function requireCredentialScope(caller: Caller, { fields, otherwise }: CredentialChange): void {
  if (fields.length === 0 || mayDo(caller, Scope.CREDENTIALS_READ)) return;
  requireKeyItself(caller, `a change of ${fields.join(", ")} is not allowed`);
  const decide = fields.length === 1 ? "decides" : "decide";
  throw new Fault(
    "missing_scope",
    `${fields.join(", ")} ${decide} where stored credentials go or who sees them, and the key "${caller.keyId}" does not ` +
      `have the scope ${scopeName(Scope.CREDENTIALS_READ)}: send a key that has it${otherwise}`,
  );
}

interface ConnectionConfigChange {
  readonly provider: Provider;
  readonly before: JsonObject | undefined;
  readonly after: JsonObject;
}

/** Does the same check for the `connection_config` of a connection that keeps its credentials. */
export function requireConfigScope(caller: Caller, { provider, before = {}, after }: ConnectionConfigChange): void {
  const changed = changedConfigNames(boundConfigNames(provider), before, after);
  requireCredentialScope(caller, {
    fields: changed.map((name) => `connection_config.${name}`),
    otherwise: ", or import the connection again with its credentials",
  });
}
