import { type AuditEvent, AuditEventSchema, type Log, LogSchema } from "../../gen/latchkey/v1/log_pb.ts";
import type { Store } from "../../store/contract.ts";
import { createRecords } from "../../store/records.ts";

/** Records of changes (audit trail) and operations (logs). */
export function createLogCollections(store: Store) {
  return {
    audit: createRecords({
      store,
      name: "audit",
      schema: AuditEventSchema,
      key: ({ id }: AuditEvent) => [id],
      indexes: { environment: ({ environment }: AuditEvent) => (environment === "" ? [] : [[environment]]) },
    }),
    logs: createRecords({
      store,
      name: "log",
      schema: LogSchema,
      key: ({ environment, id }: Log) => [environment, id],
      indexes: {
        integration: ({ environment, integration }: Log) => (integration === "" ? [] : [[environment, integration]]),
        connection: ({ environment, integration, connectionId }: Log) =>
          connectionId === "" ? [] : [[environment, integration, connectionId]],
        operation: ({ environment, operation }: Log) => [[environment, operation]],
        failed: ({ environment, failed }: Log) => (failed ? [[environment]] : []),
      },
    }),
  } as const;
}

export type LogCollections = ReturnType<typeof createLogCollections>;
