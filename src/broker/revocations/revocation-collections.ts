import { timestampMs } from "@bufbuild/protobuf/wkt";
import { type RevocationTask, RevocationTaskSchema } from "../../gen/latchkey/stored/v1/stored_pb.ts";
import { type Revocation, RevocationSchema } from "../../gen/latchkey/v1/connection_pb.ts";
import type { Store } from "../../store/contract.ts";
import { createRecords } from "../../store/records.ts";
import { bornAt, sortable } from "../stored/sortable-time.ts";

/** Collections of revocations, and of the sealed tasks that carry them out. */
export function createRevocationCollections(store: Store) {
  return {
    revocations: createRecords({
      store,
      name: "revocation",
      schema: RevocationSchema,
      // IDs sort by time.
      key: ({ ref, id }: Revocation) => [ref?.environment ?? "", id],
      keyParts: 2,
      indexes: {
        age: ({ createdAt }: Revocation) => [[bornAt(createdAt)]],
        connection: ({ ref }: Revocation) => [[ref?.environment ?? "", ref?.integration ?? "", ref?.id ?? ""]],
      },
    }),
    revocationTasks: createRecords({
      store,
      name: "revocation-task",
      schema: RevocationTaskSchema,
      secret: true,
      key: ({ connection, id }: RevocationTask) => [connection?.ref?.environment ?? "", id],
      keyParts: 2,
      indexes: {
        due: ({ connection, dueMs }: RevocationTask) => [
          [connection?.ref?.environment ?? "", connection?.ref?.integration ?? "", sortable(dueMs)],
        ],
      },
    }),
  } as const;
}

export type RevocationCollections = ReturnType<typeof createRevocationCollections>;

/** Space of the tasks by time. Keys: environment, integration, time, and the key of the task. */
export const dueRevocationSpace = "revocation-task.due";

export const createdMsOf = ({ createdAt }: Revocation): number =>
  createdAt === undefined ? 0 : timestampMs(createdAt);
