import type { Audit, AuditEntry } from "../audit/audit.ts";
import type { Caller } from "./caller.ts";

/**
 * Notes that a person had secrets shown by a page of the dashboard. Services read credentials all the time: their reads
 * are not noted.
 */
export async function noteReveal(
  audit: Pick<Audit, "note">,
  { keyId, isFromPage }: Caller,
  entry: Omit<AuditEntry, "actor">,
): Promise<void> {
  if (isFromPage === true) await audit.note({ actor: keyId, ...entry });
}
