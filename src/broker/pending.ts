import { timestampMs } from "@bufbuild/protobuf/wkt";
import type { PendingAuthorization } from "../gen/latchkey/stored/v1/stored_pb.ts";

/** How long somebody may take at a provider's page. */
export const pendingLifetimeMs = 10 * 60_000;

export const isOver = ({ createdAt }: PendingAuthorization, now: number): boolean =>
  createdAt === undefined || timestampMs(createdAt) + pendingLifetimeMs <= now;
