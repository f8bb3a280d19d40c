import { timestampMs } from "@bufbuild/protobuf/wkt";
import type { World } from "../../base/world.ts";
import type { ConnectSession } from "../../gen/latchkey/v1/connect_session_pb.ts";
import { type PageOf, type PageOptions, siftedPage } from "../stored/paging.ts";
import type { AuthorizationCollections } from "./authorization-collections.ts";

/** Lists the sessions that have not ended, newest first. */
export type ListSessions = (query: SessionQuery, page: PageOptions) => Promise<PageOf<ConnectSession>>;

export interface SessionQuery {
  readonly environment: string;
  /** Only sessions that allow this integration; empty: all. */
  readonly integration: string;
}

interface SessionListOptions extends Pick<AuthorizationCollections, "connectSessions"> {
  readonly world: World;
}

export const listSessions =
  ({ connectSessions, world }: SessionListOptions): ListSessions =>
  ({ environment, integration }, page) =>
    siftedPage({
      question: ["connect-sessions", environment, integration],
      page,
      read: (request) => connectSessions.pageBy("age", { under: [], reverse: true, ...request }),
      isWanted: (session) => session.environment === environment && allows(session, integration),
      // All sessions live equally long, so the older ones are over too.
      isPast: (session) => isSessionOver(session, world.now()),
    });

const allows = ({ allowedIntegrations }: ConnectSession, integration: string): boolean =>
  integration === "" || allowedIntegrations.length === 0 || allowedIntegrations.includes(integration);

export const isSessionOver = ({ expiresAt }: ConnectSession, now: number): boolean =>
  expiresAt === undefined || timestampMs(expiresAt) <= now;
