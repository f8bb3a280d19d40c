import type { World } from "../../../base/world.ts";
import type { ConnectionDescription } from "../../../gen/latchkey/stored/v1/stored_pb.ts";
import type { Connection, ConnectionImport, ConnectionRef } from "../../../gen/latchkey/v1/connection_pb.ts";
import type { Provider } from "../../../gen/latchkey/v1/provider_pb.ts";
import type { Change } from "../../../store/contract.ts";
import type { StoredRecordOf } from "../../../store/records.ts";
import type { ConnectionCollections } from "../../connections/connection-collections.ts";
import { descriptionOfImport } from "../../connections/connection-description.ts";
import { namesNothing } from "../../stored/name-tables.ts";

/** Queues the questions to providers about imported connections, in the commit of the import. */
export interface ImportDescriptions {
  /** Returns the stored descriptions of these connections; undefined if none, or the provider describes none. */
  read(
    refs: readonly ConnectionRef[],
    providerOf: (ref: ConnectionRef) => Provider | undefined,
  ): Promise<readonly (StoredRecordOf<ConnectionDescription> | undefined)[]>;
  /** Returns the changes for the commit that stores `connection`. */
  changes(imported: ImportStep, connection: Connection): Change[];
}

interface ImportStep {
  readonly ref: ConnectionRef;
  readonly provider: Provider;
  readonly item: Pick<ConnectionImport, "metadata" | "connectionConfig">;
  /** The description as it was read. */
  readonly description?: StoredRecordOf<ConnectionDescription> | undefined;
  /** Present when an end user authorized the connection: the provider was asked before the commit. */
  readonly authorized: object | undefined;
}

interface ImportDescriptionsOptions {
  readonly collections: Pick<ConnectionCollections, "descriptions">;
  readonly world: World;
}

export function createImportDescriptions({ collections, world }: ImportDescriptionsOptions): ImportDescriptions {
  const { descriptions } = collections;
  return {
    async read(refs, providerOf) {
      const isDescribed = refs.map((ref) => {
        const { describe = [], choices = [] } = providerOf(ref) ?? {};
        return describe.length + choices.length > 0 && !namesNothing(ref.id);
      });
      const asked = refs.filter((_, i) => isDescribed[i]);
      if (asked.length === 0) return [];
      const keys = asked.map(({ environment, integration, id }) => [environment, integration, id]);
      const found = (await descriptions.getMany(keys)).values();
      return isDescribed.map((is) => (is ? found.next().value : undefined));
    },
    changes({ ref, provider, item, description, authorized }, connection) {
      if (description === undefined && provider.describe.length + provider.choices.length === 0) return [];
      const { metadata, connectionConfig } = item;
      const given = { ...(metadata && { metadata }), ...(connectionConfig && { connectionConfig }) };
      const imported = { ref, provider, connection, given, before: description?.value, nowMs: world.now() };
      const next = authorized === undefined ? descriptionOfImport(imported) : undefined;
      return next === undefined && description === undefined
        ? []
        : descriptions.change({ before: description, after: next });
    },
  };
}
