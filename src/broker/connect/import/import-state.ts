import { Fault } from "../../../base/fault.ts";
import type { ConnectionDescription, RefreshRecord } from "../../../gen/latchkey/stored/v1/stored_pb.ts";
import type { Connection, ConnectionImport, ConnectionRef } from "../../../gen/latchkey/v1/connection_pb.ts";
import type { Integration } from "../../../gen/latchkey/v1/integration_pb.ts";
import type { Provider } from "../../../gen/latchkey/v1/provider_pb.ts";
import type { StoredRecordOf } from "../../../store/records.ts";
import type { ConnectionCollections } from "../../connections/connection-collections.ts";
import type { Integrations } from "../../setup/integrations.ts";
import type { Providers } from "../../setup/providers.ts";
import { namesNothing } from "../../stored/name-tables.ts";
import type { ImportDescriptions } from "./import-descriptions.ts";

/** The integration of an item, and its provider. */
export interface ImportTarget {
  readonly stored: StoredRecordOf<Integration>;
  readonly integration: Integration;
  readonly provider: Provider;
}

/** The stored state of a batch. Lists are in the order of the batch. */
export interface ImportState {
  /** Returns the integration of an item, or the fault that it is not found with. */
  targetOf(item: Pick<ConnectionImport, "environment" | "integration">): ImportTarget | Fault;
  readonly connections: readonly (StoredRecordOf<Connection> | undefined)[];
  readonly refreshRecords: readonly (StoredRecordOf<RefreshRecord> | undefined)[];
  readonly descriptions: readonly (StoredRecordOf<ConnectionDescription> | undefined)[];
}

export type ReadImportState = (refs: readonly ConnectionRef[]) => Promise<ImportState>;

interface ImportStateOptions {
  readonly collections: ConnectionCollections;
  readonly integrations: Integrations;
  readonly providers: Providers;
  readonly importDescriptions: ImportDescriptions;
}

export function createReadImportState(options: ImportStateOptions): ReadImportState {
  const { collections, integrations, providers, importDescriptions } = options;
  const { connections, refreshes } = collections;

  /** Looks up the integrations of a batch, each once, found or not. */
  async function readTargets(refs: readonly ConnectionRef[]): Promise<ImportTargets> {
    const targets = new ImportTargets();
    for (const ref of refs) {
      if (targets.of(ref) !== undefined) continue;
      try {
        const stored = await integrations.get({ environment: ref.environment, key: ref.integration });
        const { value: integration } = stored;
        targets.add(ref, { stored, integration, provider: await providers.findNow(integration.provider) });
      } catch (error) {
        if (!(error instanceof Fault)) throw error;
        targets.add(ref, error);
      }
    }
    return targets;
  }

  /** Reads the existing connections. An invalid ref counts as missing here; validation rejects it later. */
  async function readConnections(
    refs: readonly ConnectionRef[],
  ): Promise<readonly (StoredRecordOf<Connection> | undefined)[]> {
    const keys = refs.map(keyOf);
    const asked = keys.filter((key) => !namesNothing(...key));
    const all = await connections.getMany(asked);
    if (asked.length === keys.length) return all;
    const found = all.values();
    return keys.map((key) => (namesNothing(...key) ? undefined : found.next().value));
  }

  /** Reads the refresh records of the existing connections. */
  async function readRefreshRecords(
    refs: readonly ConnectionRef[],
    known: readonly (StoredRecordOf<Connection> | undefined)[],
  ): Promise<readonly (StoredRecordOf<RefreshRecord> | undefined)[]> {
    const existing = refs.filter((_, i) => known[i] !== undefined);
    if (existing.length === 0) return [];
    const found = (await refreshes.getMany(existing.map(keyOf))).values();
    return known.map((one) => (one === undefined ? undefined : found.next().value));
  }

  return async (refs) => {
    const targets = await readTargets(refs);
    const known = await readConnections(refs);
    const refreshRecords = await readRefreshRecords(refs, known);
    const descriptions = await importDescriptions.read(refs, (ref) => {
      const target = targets.of(ref);
      return target instanceof Fault ? undefined : target?.provider;
    });
    return {
      targetOf(item) {
        const target = targets.of(item);
        if (target === undefined) throw new Error("every item has a target");
        return target;
      },
      connections: known,
      refreshRecords,
      descriptions,
    };
  };
}

type TargetName = Pick<ConnectionRef, "environment" | "integration">;

/** The integrations of a batch. Most items follow one of the same integration: no key is joined for them. */
class ImportTargets {
  readonly #all = new Map<string, ImportTarget | Fault>();
  #last:
    | { readonly environment: string; readonly integration: string; readonly target: ImportTarget | Fault }
    | undefined;

  of({ environment, integration }: TargetName): ImportTarget | Fault | undefined {
    const last = this.#last;
    if (last?.environment === environment && last.integration === integration) return last.target;
    const target = this.#all.get(`${environment}\0${integration}`);
    if (target !== undefined) this.#last = { environment, integration, target };
    return target;
  }

  add({ environment, integration }: TargetName, target: ImportTarget | Fault): void {
    this.#all.set(`${environment}\0${integration}`, target);
  }
}

const keyOf = ({ environment, integration, id }: ConnectionRef) => [environment, integration, id];
