import type { ServiceImpl } from "@connectrpc/connect";
import { Fault } from "../../base/fault.ts";
import type { Broker } from "../../broker/broker.ts";
import type { ChannelService } from "../../gen/latchkey/v1/channel_pb.ts";
import { callerOf, pageOf } from "../server/context.ts";
import { markerOf, watcherOf } from "../server/watch.ts";

type ChannelMethods = ServiceImpl<typeof ChannelService>;

export const channelService = ({ channels, destinations, environments, feeds }: Broker): ChannelMethods => ({
  async createChannel({ connection, ...request }, context) {
    if (connection === undefined) throw new Error("a validated request names its connection");
    const caller = callerOf(context);
    const ref = { ...connection, environment: await environments.of(caller, connection.environment) };
    return { channel: await channels.create({ ...request, ref }, caller.keyId) };
  },
  async getChannel({ environment, id }, context) {
    return { channel: await channels.get({ environment: await environments.of(callerOf(context), environment), id }) };
  },
  async listChannels({ environment: requested, integration, connectionId, states, ...request }, context) {
    if (connectionId !== "" && integration === "") {
      const message = "must be given with connection_id, which names a connection of one integration";
      throw new Fault("invalid_body", "the filter is not valid", { mistakes: [{ path: ["integration"], message }] });
    }
    const environment = await environments.of(callerOf(context), requested);
    const { items, next } = await channels.list({ environment, integration, connectionId, states }, pageOf(request));
    return { channels: [...items], nextPageToken: next };
  },
  async renewChannel({ environment: requested, id, expectedRevision }, context) {
    const caller = callerOf(context);
    const environment = await environments.of(caller, requested);
    return { channel: await channels.renew({ environment, id, expectedRevision }, caller.keyId) };
  },
  async stopChannel({ environment: requested, id, expectedRevision }, context) {
    const caller = callerOf(context);
    const environment = await environments.of(caller, requested);
    return { channel: await channels.stop({ environment, id, expectedRevision }, caller.keyId) };
  },
  async *watchChannels({ environment: requested, fromRevision }, context) {
    const environment = await environments.of(callerOf(context), requested);
    const request = { under: [environment], from: Number(fromRevision), changesOnly: false, ...watcherOf(context) };
    for await (const step of feeds.channels(request)) {
      if (step.kind === "put") {
        const { channel, environmentId } = step.value;
        const isShown = channel !== undefined && destinations.isCurrent({ environment, environmentId });
        if (isShown) yield { event: { case: "put" as const, value: channel } };
      } else if (step.kind === "deleted") {
        const [, id = ""] = step.parts;
        yield { event: { case: "deleted" as const, value: { environment, id, revision: BigInt(step.revision) } } };
      } else yield { event: { case: "marker" as const, value: markerOf(step) } };
    }
  },
});
