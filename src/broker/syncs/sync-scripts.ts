import { Fault } from "../../base/fault.ts";
import type { ScriptHost, SyncScript } from "../../core/scripts/script.ts";
import { baseVariant } from "../../core/scripts/sync-state.ts";

/** The scripts of syncs, by integration. */
export interface SyncScripts {
  of(integration: string): readonly SyncScript[];
  /** Throws `unknown_sync` if the integration has no sync of this name. */
  require(integration: string, name: string): SyncScript;
  /** Returns an integration's syncs with these names, each with its named variant; all syncs if there are no names. */
  named(integration: string, names: readonly string[]): readonly NamedScript[];
}

export interface NamedScript {
  readonly script: SyncScript;
  readonly variant: string;
}

export function createSyncScripts(scripts: Pick<ScriptHost, "all" | "find">): SyncScripts {
  const of = (integration: string) =>
    scripts
      .all()
      .filter((script): script is SyncScript => script.kind === "sync" && script.integration === integration);

  function requireSync(integration: string, name: string): SyncScript {
    const found = scripts.find({ integration, kind: "sync", name });
    if (found?.kind === "sync") return found;
    throw new Fault("unknown_sync", `the integration "${integration}" has no sync "${name}"`, {
      missing: { kind: "sync", name, integration },
    });
  }

  return {
    of,
    require: requireSync,
    named(integration, names) {
      if (names.length === 0) return of(integration).map((script) => ({ script, variant: baseVariant }));
      const full = names.map((one) => {
        const [name = "", variant = ""] = one.split("::");
        return `${name}::${variant || baseVariant}`;
      });
      return [...new Set(full)].map((one) => {
        const [name = "", variant = ""] = one.split("::");
        return { script: requireSync(integration, name), variant };
      });
    },
  };
}
