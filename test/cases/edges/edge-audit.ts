import { type AuditEvent, LogService } from "../../../src/gen/latchkey/v1/log_pb.ts";
import type { TestSidecar } from "../../support/sidecar/harness.ts";

/** Returns the audit events of an action, newest first. */
export async function auditOf({ client }: TestSidecar, action: string): Promise<readonly AuditEvent[]> {
  return (await client(LogService).listAuditEvents({ action })).events;
}
