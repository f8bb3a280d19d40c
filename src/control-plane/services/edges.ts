import type { ServiceImpl } from "@connectrpc/connect";
import type { Broker } from "../../broker/broker.ts";
import { EdgeService } from "../../gen/latchkey/v1/edge_pb.ts";
import { callerOf, pageOf } from "../server/context.ts";
import { readerKey } from "../server/slow-readers.ts";

export { EdgeService };

export const edgeService = ({ edges, environments }: Broker): ServiceImpl<typeof EdgeService> => ({
  async *follow(messages, context) {
    const { signal, values } = context;
    yield* edges.follow(messages, {
      caller: callerOf(context),
      signal,
      onOverrun: () => values.get(readerKey)?.hurry(),
    });
  },
  async listEdges({ environment: requested, ...request }, context) {
    const caller = callerOf(context);
    const isOfAll = caller.environment === undefined && requested === "";
    const environment = isOfAll ? "" : await environments.of(caller, requested);
    const { items, next } = edges.list({ environment }, pageOf(request));
    return { edges: [...items], nextPageToken: next };
  },
});
