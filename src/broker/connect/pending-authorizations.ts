import { timestampMs } from "@bufbuild/protobuf/wkt";
import type { PendingAuthorization } from "../../gen/latchkey/stored/v1/stored_pb.ts";

/** How long somebody may take at a provider's page. */
export const pendingLifetimeMs = 10 * 60_000;

/** How long a code that is entered elsewhere is waited for, whatever its provider says. */
export const deviceLifetimeMs = 30 * 60_000;
/** How long, from its beginning, it can be asked what came of it. */
export const deviceKeptMs = 2 * deviceLifetimeMs;

export const isOver = ({ createdAt }: PendingAuthorization, now: number): boolean =>
  createdAt === undefined || timestampMs(createdAt) + pendingLifetimeMs <= now;
