import type { Channel } from "./apis/channel.ts";
import type { SandboxGrant } from "./auth/grants.ts";
import type { SeenReport } from "./seen.ts";

/** What the sandbox saw, and the grants and channels that it holds. */
export interface SandboxReport extends SeenReport {
  /** The latest thousand grants, the newest at the end. */
  readonly grants: readonly SeenGrant[];
  readonly channels: readonly SeenChannel[];
}

export interface SeenGrant {
  readonly id: string;
  readonly client: string;
  readonly user: string;
  readonly scopes: readonly string[];
  readonly refreshes: number;
  /** Uses of a replaced refresh token. */
  readonly reuses: number;
  readonly revoked: boolean;
}

export interface SeenChannel {
  readonly id: string;
  readonly resourceId: string;
  readonly resourceUri: string;
  readonly address: string;
  readonly expiration: number;
  readonly messageNumber: number;
}

const keptGrants = 1_000;

interface ReportSources {
  readonly seen: SeenReport;
  readonly grants: readonly SandboxGrant[];
  readonly channels: readonly Channel[];
}

export const reportOf = ({ seen, grants, channels }: ReportSources): SandboxReport => ({
  ...seen,
  grants: grants.slice(-keptGrants).map(({ id, clientId, person, scopes, refreshes, reuses, revoked }) => ({
    id,
    client: clientId,
    user: person.email,
    scopes,
    refreshes,
    reuses,
    revoked,
  })),
  channels: channels.map(({ id, resourceId, resourceUri, address, expiration, messageNumber }) => ({
    id,
    resourceId,
    resourceUri,
    address,
    expiration,
    messageNumber,
  })),
});
