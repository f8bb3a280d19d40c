import { Fault } from "../../base/fault.ts";
import type { Caller, EdgeIdentity } from "./caller.ts";
import type { SetupCollections } from "./setup-collections.ts";

/** The environments that callers mean. */
export interface CallerEnvironments {
  /**
   * Returns the environment of a request. For a key with an environment: that environment, and no other. For a control
   * key: the named environment, or the only one that exists. Throws `unknown_environment`, with the names of the
   * existing environments, if a control key names an unknown one.
   */
  of(caller: Caller, named: string): Promise<string>;
  /** Forgets a deleted environment, which is otherwise known for a second more. */
  forget(name: string): void;
}

interface CallerEnvironmentsOptions {
  readonly collections: Pick<SetupCollections, "environments">;
  /** Throws `unknown_environment`. */
  readonly requireEnvironment: (name: string) => Promise<unknown>;
}

const seenForMs = 1_000;
const maxSeen = 1_000;

/** Returns the named environment of an edge, or its only one. */
function environmentOfEdge(name: string, { environments }: EdgeIdentity, named: string): string {
  const [only = "", second] = environments;
  if (named === "" && second === undefined) return only;
  if (environments.includes(named)) return named;
  if (named !== "") throw new Fault("missing_scope", `${name} may not follow the environment "${named}"`);
  const message = "environment is required: the edge may follow several; set LATCHKEY_ENVIRONMENT";
  throw new Fault("invalid_body", message, { mistakes: [{ path: ["hello", "environment"], message }] });
}

export function createCallerEnvironments(options: CallerEnvironmentsOptions): CallerEnvironments {
  const { collections, requireEnvironment } = options;

  /** Time of the last read of an environment, by name: an import names the same environment a thousand times. */
  const seen = new Map<string, number>();

  async function requireKnown(name: string): Promise<string> {
    const since = seen.get(name);
    if (since !== undefined && performance.now() - since < seenForMs) return name;
    await requireEnvironment(name);
    if (seen.size >= maxSeen) seen.clear();
    seen.set(name, performance.now());
    return name;
  }

  return {
    async of(caller, named) {
      if (caller.edge !== undefined) return requireKnown(environmentOfEdge(caller.keyId, caller.edge, named));
      if (caller.environment !== undefined) {
        if (named === "" || named === caller.environment) return caller.environment;
        throw new Fault("missing_scope", `the key "${caller.keyId}" belongs to another environment`);
      }
      if (named !== "") return requireKnown(named);
      const [first, second] = await collections.environments.page({ under: [], limit: 2 });
      if (first !== undefined && second === undefined) return first.value.name;
      const message = "environment is required: the key belongs to none, and there is not exactly one environment";
      throw new Fault("invalid_body", message, { mistakes: [{ path: ["environment"], message }] });
    },
    forget(name) {
      seen.delete(name);
    },
  };
}
