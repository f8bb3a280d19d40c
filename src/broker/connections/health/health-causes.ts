import { timestampMs } from "@bufbuild/protobuf/wkt";
import type { RefreshRecord } from "../../../gen/latchkey/stored/v1/stored_pb.ts";
import type { Connection } from "../../../gen/latchkey/v1/connection_pb.ts";
import { OAuthApp_Publishing } from "../../../gen/latchkey/v1/integration_pb.ts";
import type { Restoration } from "../../../store/contract.ts";
import type { ConnectionSetup } from "./health-judgement.ts";
import type { RefreshFailure } from "./refresh-bookkeeping.ts";
import { type RefreshCause, refreshCauses } from "./refresh-causes.ts";

/** A dead grant and everything known about it. */
interface DeadConnection extends ConnectionSetup {
  readonly record: RefreshRecord;
  readonly connection: Connection;
  readonly failure: RefreshFailure;
  readonly isAnswerLost: boolean;
  readonly liveGrants: number | undefined;
  /** The backup that the store was restored from; undefined if it was not restored. */
  readonly restoration: Restoration | undefined;
  readonly credentialsRevision: number;
  readonly nowMs: number;
}

/** The possible causes of the dead grant, the likeliest first. */
export function causesOf({
  record,
  connection,
  failure,
  integration,
  provider,
  ...rest
}: DeadConnection): RefreshCause[] {
  const rules = provider.auth.case === "oauth2" ? provider.auth.value : undefined;
  const requested = integration.oauth?.scopes ?? [];
  const granted = connection.grantedScopes;
  const scopes = [granted, requested, rules?.defaultScopes ?? []].find(({ length }) => length > 0) ?? [];
  return refreshCauses({
    rules,
    publishing: integration.oauth?.publishing ?? OAuthApp_Publishing.UNSPECIFIED,
    scopes,
    grantedAtMs: record.grantedAt === undefined ? undefined : timestampMs(record.grantedAt),
    lastRenewedAtMs: record.lastSucceededAt === undefined ? undefined : timestampMs(record.lastSucceededAt),
    code: failure.code,
    isAnswerLost: rest.isAnswerLost,
    liveGrants: rest.liveGrants,
    restored: isOfBackup({ record, ...rest }) ? rest.restoration : undefined,
    nowMs: rest.nowMs,
  });
}

/**
 * Whether the credentials came from the backup. A re-seal gives them a later revision but changes no time, so both
 * count.
 */
function isOfBackup({
  restoration,
  credentialsRevision,
  record: { lastSucceededAt, grantedAt },
}: Pick<DeadConnection, "restoration" | "credentialsRevision" | "record">): boolean {
  if (restoration === undefined) return false;
  const gotAt = lastSucceededAt ?? grantedAt;
  const isOlder = gotAt !== undefined && timestampMs(gotAt) <= restoration.backupAtMs;
  return credentialsRevision <= restoration.backupRevision || isOlder;
}
