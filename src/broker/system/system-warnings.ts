import { timestampMs } from "@bufbuild/protobuf/wkt";
import type { Key } from "../../gen/latchkey/v1/environment_pb.ts";
import {
  type Replica,
  Warning_Severity as Severity,
  Warning_Subject as Subject,
} from "../../gen/latchkey/v1/system_pb.ts";
import { daysText, type FoundWarning } from "./warning-list.ts";

const soonMs = 7 * 86_400_000;

/** Warns of keys of callers that expire within a week, or did in the last week. */
export function expiryWarnings(keys: readonly Key[], nowMs: number): readonly FoundWarning[] {
  return keys.flatMap(({ id, environment, expiresAt }): FoundWarning[] => {
    const leftMs = expiresAt === undefined ? Number.POSITIVE_INFINITY : timestampMs(expiresAt) - nowMs;
    if (Math.abs(leftMs) > soonMs) return [];
    const of = {
      subject: Subject.KEY,
      environment,
      name: id,
      severity: Severity.NOTICE,
      doc: "security.md#keys-and-scopes",
    };
    if (leftMs <= 0) {
      const message = `the key "${id}" has expired: callers that use it are refused`;
      return [{ ...of, code: "key_expired", message, remedy: "revoke it once no caller uses it any more" }];
    }
    const successor = keys.find(({ replaces }) => replaces === id);
    const message = `the key "${id}" expires in ${leftMs < 86_400_000 ? "less than 1 day" : daysText(leftMs)}`;
    if (successor !== undefined) {
      return [
        { ...of, code: "key_expires", message, remedy: `give its callers the successor "${successor.id}" before` },
      ];
    }
    const remedy = `rotate it, and give callers the successor: "latchkey keys rotate ${id}"`;
    return [{ ...of, code: "key_expires", severity: Severity.WARNING, message, remedy }];
  });
}

/** Warns of an egress proxy through which nothing leaves. */
export function egressWarnings(trouble: string | undefined): readonly FoundWarning[] {
  if (trouble === undefined) return [];
  return [
    {
      code: "egress_proxy_failed",
      severity: Severity.CRITICAL,
      subject: Subject.CONFIG,
      message: `nothing leaves Latchkey: ${trouble}`,
      remedy: "repair the proxy, or correct LATCHKEY_EGRESS_PROXY and restart Latchkey",
      doc: "egress.md#when-something-fails",
    },
  ];
}

/** More commits than a replica that keeps up ever lags behind. */
const mostBehind = 1_000n;

/** Warns of replicas of different versions, and of one that does not keep up. */
export function replicaWarnings(replicas: readonly Replica[]): readonly FoundWarning[] {
  const versions = [...new Set(replicas.map(({ version }) => version))].toSorted();
  const behind = replicas.filter((one) => one.behind > mostBehind);
  const of = { subject: Subject.REPLICA, severity: Severity.WARNING, doc: "store-and-backup.md#postgresql" };
  return [
    ...(versions.length < 2
      ? []
      : [
          {
            ...of,
            code: "replica_versions_differ",
            message: `replicas run different versions: ${versions.join(", ")}`,
            remedy: "finish the update; versions side by side are meant for its duration only",
          },
        ]),
    ...behind.map((one) => ({
      ...of,
      code: "replica_behind",
      name: one.host,
      message: `the replica ${one.host} is ${one.behind} commits behind the others`,
      remedy: "check its CPU, and its network to PostgreSQL",
    })),
  ];
}
