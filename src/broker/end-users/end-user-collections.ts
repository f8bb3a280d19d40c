import { digestOf } from "../../base/ids.ts";
import { type StoredEndUserDeletion, StoredEndUserDeletionSchema } from "../../gen/latchkey/stored/v1/stored_pb.ts";
import { EndUserDeletion_State } from "../../gen/latchkey/v1/end_user_pb.ts";
import type { Store } from "../../store/contract.ts";
import { createRecords } from "../../store/records.ts";
import { bornAt } from "../stored/sortable-time.ts";

/** The collection of deletions of end users. */
export function createEndUserCollections(store: Store) {
  return {
    endUserDeletions: createRecords({
      store,
      name: "end-user-deletion",
      schema: StoredEndUserDeletionSchema,
      key: ({ deletion }: StoredEndUserDeletion) => [
        deletion?.environment ?? "",
        // The application chooses the ID, and keys have a limited form.
        digestOf(deletion?.endUserId ?? ""),
      ],
      keyParts: 2,
      indexes: {
        running: ({ deletion }: StoredEndUserDeletion) =>
          deletion?.state === EndUserDeletion_State.RUNNING ? [[]] : [],
        age: ({ deletion }: StoredEndUserDeletion) => [[bornAt(deletion?.createdAt)]],
      },
    }),
  } as const;
}

export type EndUserCollections = ReturnType<typeof createEndUserCollections>;

/** Space of the deletions that are under way. */
export const runningDeletionSpace = "end-user-deletion.running";
