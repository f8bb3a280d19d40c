import type { Message } from "@bufbuild/protobuf";

type Revised = Message & { revision: bigint };

/**
 * The store assigns the revision: `complete` fills it in when a record is read, and `strip` removes it before storing.
 */
export const complete = (value: Revised, revision: number) => {
  value.revision = BigInt(revision);
};
export const strip = <T extends Revised>(value: T): T => (value.revision === 0n ? value : { ...value, revision: 0n });
