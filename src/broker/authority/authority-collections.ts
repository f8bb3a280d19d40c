import { type StoredAuthority, StoredAuthoritySchema } from "../../gen/latchkey/stored/v1/stored_pb.ts";
import type { Store } from "../../store/contract.ts";
import { createRecords } from "../../store/records.ts";

export function createAuthorityCollections(store: Store) {
  return {
    authorities: createRecords({
      store,
      name: "authority",
      schema: StoredAuthoritySchema,
      secret: true,
      key: ({ name }: StoredAuthority) => [name],
    }),
  } as const;
}

export type AuthorityCollections = ReturnType<typeof createAuthorityCollections>;
