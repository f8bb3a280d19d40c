import type { World } from "../../base/world.ts";
import { isLocalOrigin } from "../../core/outgoing/origin.ts";
import type { Store } from "../../store/contract.ts";
import { follow } from "../../store/follow.ts";
import type { Collections } from "../collections.ts";

/** The origins whose pages may use the browser routes: in memory, since each such request asks. */
export interface Origins {
  /** Of any environment: before it is known whose session it is. */
  readonly isKnown: (origin: string) => boolean;
  readonly isAllowed: (origin: string, environment: string) => boolean;
  readonly environments: () => readonly string[];
  /** As the environment lists them. */
  readonly of: (environment: string) => readonly string[];
  /** Lets in the pages that this machine serves to itself as well, of every environment. For development alone. */
  readonly allowLocal: () => void;
  /** Whether a browser may be sent there at the end, where the environment lists these. */
  readonly forReturn: (text: string, listed: readonly string[]) => readonly string[];
  /** All of them, for what a page may be framed by. */
  readonly all: () => readonly string[];
  close(): void;
}

interface OriginsOptions {
  readonly store: Store;
  readonly collections: Collections;
  readonly world: World;
}

export async function openOrigins({ store, collections, world }: OriginsOptions): Promise<Origins> {
  const byEnvironment = new Map<string, readonly string[]>();
  let all: ReadonlySet<string> = new Set();
  let areLocalAllowed = false;
  const isLocal = (origin: string) => areLocalAllowed && isLocalOrigin(origin);
  const gather = () => {
    all = new Set([...byEnvironment.values()].flat());
  };

  const watch = await follow({
    store,
    world,
    spaces: [collections.environments.name],
    async read() {
      const found = await collections.environments.page({ under: [], limit: Number.MAX_SAFE_INTEGER });
      return () => {
        byEnvironment.clear();
        for (const { value } of found) byEnvironment.set(value.name, value.allowedOrigins);
        gather();
      };
    },
    onCommit({ changes, revision }) {
      for (const change of changes) {
        const read = collections.environments.read(change, revision);
        const name = read?.parts[0];
        if (read === undefined || name === undefined) continue;
        if (read.value === undefined) byEnvironment.delete(name);
        else byEnvironment.set(name, read.value.allowedOrigins);
        gather();
      }
    },
  });

  return {
    isKnown: (origin) => all.has(origin) || isLocal(origin),
    isAllowed: (origin, environment) => (byEnvironment.get(environment)?.includes(origin) ?? false) || isLocal(origin),
    allowLocal() {
      areLocalAllowed = true;
    },
    forReturn(text, listed) {
      const origin = URL.canParse(text) ? new URL(text).origin : "";
      return isLocal(origin) ? [...listed, origin] : listed;
    },
    environments: () => [...byEnvironment.keys()],
    of: (environment) => byEnvironment.get(environment) ?? [],
    all: () => [...all],
    close: () => watch.close(),
  };
}
