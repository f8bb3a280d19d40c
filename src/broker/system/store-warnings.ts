import { timestampMs } from "@bufbuild/protobuf/wkt";
import { Warning_Severity as Severity, Warning_Subject as Subject } from "../../gen/latchkey/v1/system_pb.ts";
import type { SealKeyUse } from "./seal-keys.ts";
import type { Upkeep } from "./upkeep.ts";
import { daysText, type FoundWarning } from "./warning-list.ts";

interface StoreFacts {
  readonly upkeep: Pick<Upkeep, "status" | "last" | "sealKeys">;
  readonly nowMs: number;
  /** When the first environment was created: how long there has been something to back up. */
  readonly inUseSinceMs: number | undefined;
  readonly signal: AbortSignal;
}

const dayMs = 86_400_000;
/** A backup that is older does not protect what users connected since. */
const backupAgeMs = 7 * dayMs;
const scrubAgeMs = 90 * dayMs;

/** Warns of the store: its state, the age of the last backup and scrub, and its encryption keys. */
export async function storeWarnings(facts: StoreFacts): Promise<readonly FoundWarning[]> {
  const { upkeep, signal } = facts;
  const status = await upkeep.status();
  const [last, keys] = await Promise.all([upkeep.last(), upkeep.sealKeys({ countValues: false, signal })]);
  const isShared = status.backend === "postgres";
  return [
    ...stateWarnings(status),
    ...backupWarnings(last.backup?.at && timestampMs(last.backup.at), isShared, facts),
    ...scrubWarnings(last.scrub, facts),
    ...keyWarnings(keys),
  ];
}

const ofStore = { subject: Subject.STORE };

function stateWarnings({ writable, reason = "" }: Awaited<ReturnType<Upkeep["status"]>>): readonly FoundWarning[] {
  if (writable && reason === "") return [];
  const remedy = 'repair what the reason names; "latchkey store status" shows when it is over';
  const doc = "troubleshooting.md";
  if (writable) {
    const message = `the store needs attention: ${reason}`;
    return [{ ...ofStore, code: "store_impaired", severity: Severity.CRITICAL, message, remedy, doc }];
  }
  const message = `the store accepts no writes: ${reason}`;
  return [{ ...ofStore, code: "store_read_only", severity: Severity.CRITICAL, message, remedy, doc }];
}

function backupWarnings(
  atMs: number | undefined,
  isShared: boolean,
  { nowMs, inUseSinceMs = nowMs }: StoreFacts,
): readonly FoundWarning[] {
  // PostgreSQL is usually backed up by its own tools.
  const severity = isShared ? Severity.NOTICE : Severity.WARNING;
  const remedy = `run "latchkey store backup", or ignore this if you back up ${isShared ? "PostgreSQL" : "the volume"} itself`;
  const doc = "store-and-backup.md#back-up";
  if (atMs === undefined) {
    if (nowMs - inUseSinceMs < backupAgeMs) return [];
    const message = `the store has been in use for ${daysText(nowMs - inUseSinceMs)}, and Latchkey knows of no backup`;
    return [{ ...ofStore, code: "backup_missing", severity, message, remedy, doc }];
  }
  if (nowMs - atMs < backupAgeMs) return [];
  const message = `the last backup is ${daysText(nowMs - atMs)} old`;
  return [{ ...ofStore, code: "backup_old", severity, message, remedy, doc }];
}

function scrubWarnings(
  last: Awaited<ReturnType<Upkeep["last"]>>["scrub"],
  { nowMs, inUseSinceMs = nowMs }: StoreFacts,
): readonly FoundWarning[] {
  const doc = "store-and-backup.md#check-for-damage";
  if (last !== undefined && last.damaged > 0n) {
    const message = `the last check found damage in the store: ${last.examples.slice(0, 3).join(", ")}`;
    const remedy = "restore the last backup; check the disk before";
    return [{ ...ofStore, code: "store_damaged", severity: Severity.CRITICAL, message, remedy, doc }];
  }
  const sinceMs = last?.at === undefined ? inUseSinceMs : timestampMs(last.at);
  if (nowMs - sinceMs < scrubAgeMs) return [];
  const message = `the store was ${last === undefined ? "never checked" : `last checked ${daysText(nowMs - sinceMs)} ago`}`;
  const remedy = 'run "latchkey store scrub", which reads everything once';
  return [{ ...ofStore, code: "scrub_old", severity: Severity.NOTICE, message, remedy, doc }];
}

function keyWarnings(keys: readonly SealKeyUse[]): readonly FoundWarning[] {
  const doc = "store-and-backup.md#rotate-the-encryption-key";
  return keys.slice(1).map(({ id, isNeeded }): FoundWarning => {
    const named = { ...ofStore, severity: Severity.NOTICE, name: id, doc };
    if (isNeeded) {
      const message = `values are still encrypted with the replaced encryption key "${id}"`;
      const remedy = 'run "latchkey store reseal" to encrypt them with the first key';
      return { ...named, code: "encryption_key_replaced", message, remedy };
    }
    const message = `the encryption key "${id}" is no longer needed`;
    const remedy =
      "remove it from LATCHKEY_SEAL_KEYS at the next restart; keep a copy as long as you keep older backups";
    return { ...named, code: "encryption_key_unused", message, remedy };
  });
}
