import type { World } from "../../base/world.ts";
import { isLocalOrigin } from "../../core/outgoing/origin.ts";
import type { Environment } from "../../gen/latchkey/v1/environment_pb.ts";
import type { Store } from "../../store/contract.ts";
import { follow } from "../../store/follow.ts";
import type { SetupCollections } from "./setup-collections.ts";

/** Origins whose pages may use the browser routes. Kept in memory, because each browser request checks them. */
export interface Origins {
  /** Returns whether any environment allows the origin, for requests whose session is not known yet. */
  readonly isKnown: (origin: string) => boolean;
  readonly isAllowed: (origin: string, environment: string) => boolean;
  readonly environments: () => readonly string[];
  /** Returns the origins that the environment lists. */
  readonly of: (environment: string) => readonly string[];
  /** Also allows pages from this machine (local origins), in every environment. For development only. */
  readonly allowLocal: () => void;
  /** Returns the origins that a browser may be sent to at the end, when the environment lists `listed`. */
  readonly forReturn: (text: string, listed: readonly string[]) => readonly string[];
  /** Returns the settings of an environment that its pages need. */
  readonly settingsOf: (environment: string) => PageEnvironment | undefined;
  /** Returns the settings of the only environment; undefined: there are several. */
  readonly soleSettings: () => PageEnvironment | undefined;
  /** Returns the origins of all environments, for the list of sites that may frame a page. */
  readonly all: () => readonly string[];
  close(): void;
}

type PageEnvironment = Pick<Environment, "allowedOrigins" | "branding">;

interface OriginsOptions {
  readonly store: Store;
  readonly collections: SetupCollections;
  readonly world: World;
}

export async function openOrigins({ store, collections, world }: OriginsOptions): Promise<Origins> {
  const byEnvironment = new Map<string, PageEnvironment>();
  let all: ReadonlySet<string> = new Set();
  let areLocalAllowed = false;
  const isLocal = (origin: string) => areLocalAllowed && isLocalOrigin(origin);
  const gather = () => {
    all = new Set([...byEnvironment.values()].flatMap(({ allowedOrigins }) => allowedOrigins));
  };

  const watch = await follow({
    store,
    world,
    spaces: [collections.environments.name],
    async read() {
      const found = await collections.environments.page({ under: [], limit: Number.MAX_SAFE_INTEGER });
      return () => {
        byEnvironment.clear();
        for (const { value } of found) byEnvironment.set(value.name, value);
        gather();
      };
    },
    onCommit({ changes, revision }) {
      for (const change of changes) {
        const read = collections.environments.read(change, revision);
        const name = read?.parts[0];
        if (read === undefined || name === undefined) continue;
        if (read.value === undefined) byEnvironment.delete(name);
        else byEnvironment.set(name, read.value);
        gather();
      }
    },
  });

  return {
    isKnown: (origin) => all.has(origin) || isLocal(origin),
    isAllowed: (origin, environment) =>
      (byEnvironment.get(environment)?.allowedOrigins.includes(origin) ?? false) || isLocal(origin),
    allowLocal() {
      areLocalAllowed = true;
    },
    forReturn(text, listed) {
      const origin = URL.canParse(text) ? new URL(text).origin : "";
      return isLocal(origin) ? [...listed, origin] : listed;
    },
    environments: () => [...byEnvironment.keys()],
    of: (environment) => byEnvironment.get(environment)?.allowedOrigins ?? [],
    settingsOf: (environment) => byEnvironment.get(environment),
    soleSettings() {
      const [sole, second] = byEnvironment.values();
      return second === undefined ? sole : undefined;
    },
    all: () => [...all],
    close: () => watch.close(),
  };
}
