import { timestampMs } from "@bufbuild/protobuf/wkt";
import type { World } from "../../../base/world.ts";
import type { LookupFiling as Filing } from "../../../gen/latchkey/stored/v1/stored_pb.ts";
import type { Store } from "../../../store/contract.ts";
import { partsOf, under } from "../../../store/keys.ts";
import type { StoredRecordOf } from "../../../store/records.ts";
import type { ConnectionCollections } from "../connection-collections.ts";
import type { IntegrationName } from "../integration-name.ts";
import { lookupForm } from "./connection-lookups.ts";
import type { LookupFields } from "./lookup-fields.ts";

/** Decides which providers have connections whose lookup keys must be written again. */
export interface ReindexPlan {
  /** `isComplete` checks every provider that is used; otherwise only work that waits for its time. */
  next(isComplete: boolean): Promise<PlannedReindex>;
  /** Notes that this process has indexed, or indexes now, the connections of a provider by these fields. */
  agree(provider: string, fields: readonly string[]): void;
}

export interface PlannedReindex {
  readonly work: readonly ReindexWork[];
  /** A provider without connections was left out: its first connection needs another scan. */
  readonly isLeft: boolean;
}

export interface ReindexWork {
  readonly provider: string;
  readonly wanted: readonly string[];
  readonly stored: StoredRecordOf<Filing> | undefined;
  readonly integrations: readonly IntegrationName[];
}

interface ReindexPlanOptions {
  readonly store: Store;
  readonly collections: Pick<ConnectionCollections, "connections" | "lookupFilings">;
  readonly fields: LookupFields;
  readonly world: World;
}

export function createReindexPlan({ store, collections, fields, world }: ReindexPlanOptions): ReindexPlan {
  const { connections, lookupFilings } = collections;
  /** Fields that this process has seen in use. If the stored ones differ later, another replica knows newer ones. */
  const agreed = new Map<string, readonly string[]>();

  const isOver = ({ notBefore }: Filing): boolean => notBefore === undefined || timestampMs(notBefore) <= world.now();

  async function integrationsByProvider(): Promise<ReadonlyMap<string, readonly IntegrationName[]>> {
    const names = new Map<string, IntegrationName[]>();
    // The keys of the secondary index hold all three names, in order.
    for (const { key } of await store.list({ ...under("integration.provider"), limit: Number.MAX_SAFE_INTEGER })) {
      const [, provider = "", environment = "", integration = ""] = partsOf(key);
      const known = names.get(provider) ?? [];
      known.push({ environment, integration });
      names.set(provider, known);
    }
    return names;
  }

  async function haveConnections(integrations: readonly IntegrationName[]): Promise<boolean> {
    for (const { environment, integration } of integrations) {
      const range = under(connections.name, environment, integration);
      if ((await store.list({ ...range, limit: 1 })).length > 0) return true;
    }
    return false;
  }

  return {
    async next(isComplete) {
      const filings = await lookupFilings.page({ under: [], limit: Number.MAX_SAFE_INTEGER });
      const stored = new Map(filings.map((filing) => [filing.value.provider, filing]));
      const isWaiting = filings.some(({ value }) => value.walksLeft > 0 && isOver(value));
      if (!isComplete && !isWaiting) return { work: [], isLeft: false };
      const work: ReindexWork[] = [];
      let isLeft = false;
      for (const [provider, integrations] of await integrationsByProvider()) {
        const wanted = fields.known(provider);
        const filing = stored.get(provider);
        if (wanted === undefined) continue;
        if (isFiledBy(wanted, filing?.value)) {
          agreed.set(provider, wanted);
          const { walksLeft = 0 } = filing?.value ?? {};
          if (filing === undefined || walksLeft === 0 || !isOver(filing.value)) continue;
        } else if (agreed.get(provider)?.join("\0") === wanted.join("\0")) {
          continue;
        } else if (filing === undefined && !(await haveConnections(integrations))) {
          isLeft = true;
          continue;
        }
        work.push({ provider, wanted, stored: filing, integrations });
      }
      return { work, isLeft };
    },
    agree: (provider, wanted) => void agreed.set(provider, wanted),
  };
}

/** Whether connections are indexed by these fields already. */
export const isFiledBy = (wanted: readonly string[], filing: Filing | undefined): boolean =>
  filing === undefined
    ? wanted.length === 0
    : filing.form === lookupForm && filing.fields.join("\0") === wanted.join("\0");
