import { Fault } from "../../base/fault.ts";
import { scopeName } from "../../core/scopes.ts";
import { Scope } from "../../gen/latchkey/v1/access_pb.ts";

/** A caller: its key and what the key may do. */
export interface Caller {
  readonly keyId: string;
  /** Undefined for a control key, which belongs to no environment. */
  readonly environment: string | undefined;
  readonly scopes: ReadonlySet<Scope>;
}

/** Returns whether a caller has a scope. A control key with `admin` may do everything. */
export const mayDo = ({ environment, scopes }: Caller, scope: Scope): boolean =>
  (environment === undefined && scopes.has(Scope.ADMIN)) || scopes.has(scope);

/** Throws unless a caller has a scope. `UNSPECIFIED` accepts every caller. */
export function requireScope(caller: Caller, scope: Scope): void {
  if (scope === Scope.UNSPECIFIED || mayDo(caller, scope)) return;
  throw new Fault("missing_scope", `the key "${caller.keyId}" does not have the scope ${scopeName(scope)}`);
}
