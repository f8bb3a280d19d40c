import type { Revocation, Revocation_State } from "../../gen/latchkey/v1/connection_pb.ts";
import { type PageOf, type PageOptions, siftedPage } from "../stored/paging.ts";
import { createdMsOf, type RevocationCollections } from "./revocation-collections.ts";

/** Which revocations are wanted. Empty texts and lists mean any. */
export interface RevocationFilter {
  readonly environment: string;
  readonly integration: string;
  readonly connectionId: string;
  readonly endUserId: string;
  readonly states: readonly Revocation_State[];
  /** Only those created since. */
  readonly sinceMs?: number;
}

/** Lists revocations, newest first. */
export type ListRevocations = (filter: RevocationFilter, page: PageOptions) => Promise<PageOf<Revocation>>;

export const createRevocationList =
  ({ revocations }: Pick<RevocationCollections, "revocations">): ListRevocations =>
  (filter, page) => {
    const { environment, integration, connectionId, endUserId, states, sinceMs = 0 } = filter;
    const ofConnection = integration !== "" && connectionId !== "";
    return siftedPage({
      question: ["revocations", filter],
      page,
      read: (request) =>
        ofConnection
          ? revocations.pageBy("connection", {
              under: [environment, integration, connectionId],
              reverse: true,
              ...request,
            })
          : revocations.page({ under: [environment], reverse: true, ...request }),
      isWanted: ({ ref, endUserId: of, state }) =>
        (integration === "" || ref?.integration === integration) &&
        (connectionId === "" || ref?.id === connectionId) &&
        (endUserId === "" || of === endUserId) &&
        (states.length === 0 || states.includes(state)),
      isPast: (revocation) => createdMsOf(revocation) < sinceMs,
    });
  };
