import type { Message } from "@bufbuild/protobuf";

type Revised = Message & { revision: bigint };

/** The revision is the store's to know: it is filled in when a record is read, and not stored in it. */
export const complete = (value: Revised, revision: number) => {
  value.revision = BigInt(revision);
};
export const strip = <T extends Revised>(value: T): T => ({ ...value, revision: 0n });
