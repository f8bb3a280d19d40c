import { timestampMs } from "@bufbuild/protobuf/wkt";
import type { PendingAuthorization } from "../../../gen/latchkey/stored/v1/stored_pb.ts";

/** The time an end user has at a provider's page. */
export const pendingLifetimeMs = 10 * 60_000;

/** The maximum wait for a code that is entered elsewhere, whatever its provider says. */
export const deviceLifetimeMs = 30 * 60_000;
/** How long, from the start, the outcome can be queried. */
export const deviceKeptMs = 2 * deviceLifetimeMs;

export const isOver = ({ createdAt }: Pick<PendingAuthorization, "createdAt">, now: number): boolean =>
  createdAt === undefined || timestampMs(createdAt) + pendingLifetimeMs <= now;
