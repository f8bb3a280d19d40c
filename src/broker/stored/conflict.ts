import { Fault } from "../../base/fault.ts";
import type { StoredRecordOf } from "../../store/records.ts";

/** Rejects a write that names an outdated revision: the record has changed since the caller read it. */
export function requireRevision(stored: Pick<StoredRecordOf<unknown>, "revision"> | undefined, expected: bigint): void {
  const revision = stored?.revision ?? 0;
  if (expected === 0n || expected === BigInt(revision)) return;
  throw new Fault("conflict", `the current revision is ${revision}, not ${expected}; read it again`, {
    metadata: { current_revision: String(revision) },
  });
}
