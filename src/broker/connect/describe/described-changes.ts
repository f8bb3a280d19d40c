import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import type { World } from "../../../base/world.ts";
import { checkConnectionConfig, checkMetadata } from "../../../core/connection-rules.ts";
import type { Connection } from "../../../gen/latchkey/v1/connection_pb.ts";
import type { Change } from "../../../store/contract.ts";
import type { StoredRecordOf } from "../../../store/records.ts";
import type { Audit } from "../../audit/audit.ts";
import type { Logs } from "../../audit/logs.ts";
import { type ConnectionCollections, targetOf } from "../../connections/connection-collections.ts";
import type { DescribedValues } from "../../connections/described-values.ts";
import { logFieldsOf } from "./failure-log.ts";

/** The changes that an outcome brings to a connection and to the logs. */
export interface DescribedChanges {
  /** Adds the described values to the connection, with an audit entry. None if they do not fit into it. */
  values(before: StoredRecordOf<Connection>, values: DescribedValues): Change[];
  /** Writes a log that the provider is not asked again. */
  givenUp(connection: Connection, attempt: { readonly reason: string; readonly attempts: number }): Change[];
}

interface DescribedChangesOptions {
  readonly collections: Pick<ConnectionCollections, "connections">;
  readonly logs: Logs;
  readonly audit: Audit;
  readonly world: World;
}

export function createDescribedChanges({
  collections: { connections },
  logs,
  audit,
  world,
}: DescribedChangesOptions): DescribedChanges {
  return {
    values(before, values) {
      const fields = [
        ...Object.keys(values.metadata).map((name) => `metadata.${name}`),
        ...Object.keys(values.connectionConfig).map((name) => `connection_config.${name}`),
      ];
      const { ref } = before.value;
      if (fields.length === 0 || ref === undefined) return [];
      const metadata = { ...before.value.metadata, ...values.metadata };
      const connectionConfig = { ...before.value.connectionConfig, ...values.connectionConfig };
      const mistakes = [...checkMetadata(metadata), ...checkConnectionConfig(connectionConfig, [])];
      if (mistakes.length > 0) {
        const reason = mistakes[0]?.message;
        world.log.warn("description is not valid for its connection; not stored", { ...logFieldsOf(ref), reason });
        return [];
      }
      const after = { ...before.value, metadata, connectionConfig, updatedAt: timestampFromMs(world.now()) };
      const { environment } = ref;
      const targets = [targetOf(ref)];
      return [
        ...connections.change({ before, after }),
        ...audit.changes({ actor: "latchkey", action: "connection.describe", environment, targets, fields }),
      ];
    },
    givenUp({ ref, provider }, { reason, attempts }) {
      const { environment = "", integration = "", id: connectionId = "" } = ref ?? {};
      const log = logs.begin({ operation: "connection.describe", environment, integration, connectionId, secrets: [] });
      log.error("the provider did not describe the imported connection; giving up", {
        provider,
        reason,
        attempt: attempts,
      });
      return log.end({ failed: true }).changes();
    },
  };
}
