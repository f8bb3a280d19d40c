import type { Fault, MissingName } from "../base/fault.ts";
import { createPerSecond, maxHintsPerSecond } from "../base/per-second.ts";
import { hintOf } from "../base/similar.ts";
import type { ScriptHost } from "../core/scripts/script.ts";
import { Scope } from "../gen/latchkey/v1/access_pb.ts";
import type { ConnectionRoom } from "./connections/open.ts";
import { type Caller, mayDo } from "./setup/caller.ts";
import type { SetupRoom } from "./setup/open.ts";

/** Suggests the names that callers probably meant. */
export interface Hints {
  /** Sets the hint of a fault about a missing name. Uses only names that the caller may list. Never rejects. */
  add(fault: Fault, caller: Caller | undefined): Promise<void>;
}

interface HintsOptions extends Pick<SetupRoom, "integrations" | "providers">, Pick<ConnectionRoom, "listing"> {
  readonly scripts: Pick<ScriptHost, "all">;
}

/** Limits the names that are compared. */
const maxNames = 200;

export function createHints(options: HintsOptions): Hints {
  const mayLook = createPerSecond(maxHintsPerSecond);
  return {
    async add(fault, caller) {
      const { missing } = fault;
      if (missing === undefined || caller === undefined || fault.hint !== undefined || !mayLook()) return;
      try {
        fault.hint = await find(missing, caller, options);
      } catch {
        // Without the hint, the error is still right.
      }
    },
  };
}

async function find(missing: MissingName, caller: Caller, options: HintsOptions): Promise<string | undefined> {
  const { kind, name, environment = "", integration = "" } = missing;
  // A limited caller learns nothing of what it may not use.
  if (caller.limits !== undefined) return undefined;
  // A key of an environment learns nothing of another one.
  if (caller.environment !== undefined && environment !== "" && caller.environment !== environment) return undefined;
  if (name === "" || name.length > 255) return undefined;
  switch (kind) {
    case "integration":
      return mayDo(caller, Scope.INTEGRATIONS_READ)
        ? hintOf(name, await integrationsOf(environment, options))
        : undefined;
    case "connection":
      return mayDo(caller, Scope.CONNECTIONS_READ) ? hintOfConnection(missing, options) : undefined;
    case "provider":
      if (!mayDo(caller, Scope.INTEGRATIONS_READ)) return undefined;
      return hintOf(name, namesOf(options.providers.list({ search: "" }, all).items));
    case "sync":
    case "action": {
      if (!mayDo(caller, Scope.CONNECTIONS_READ) && !mayDo(caller, Scope.INTEGRATIONS_READ)) return undefined;
      const found = options.scripts.all().filter((one) => one.kind === kind && one.integration === integration);
      return hintOf(name, namesOf(found));
    }
  }
}

const all = { size: Number.MAX_SAFE_INTEGER, token: "" };
const namesOf = (found: readonly { readonly name: string }[]): string[] => found.map(({ name }) => name);

async function integrationsOf(environment: string, { integrations }: HintsOptions): Promise<string[]> {
  const { items } = await integrations.list({ environment, provider: "" }, { size: maxNames, token: "" });
  return items.map(({ key }) => key);
}

/** The id may belong to another integration, or be misspelled. */
async function hintOfConnection(
  { name: id, environment = "", integration = "" }: MissingName,
  { listing }: HintsOptions,
): Promise<string | undefined> {
  const filter = { environment, integrations: [], id, search: "", tags: {}, states: [] };
  const same = await listing.list(filter, { size: 3, token: "" });
  const [other] = same.items.flatMap(({ ref }) => (ref?.id === id ? [ref.integration] : []));
  if (other !== undefined) return `the integration "${other}" has a connection "${id}"`;
  const near = await listing.list({ ...filter, id: "", integrations: [integration] }, { size: maxNames, token: "" });
  return hintOf(
    id,
    near.items.map(({ ref }) => ref?.id ?? ""),
  );
}
