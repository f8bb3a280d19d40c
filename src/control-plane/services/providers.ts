import type { ServiceImpl } from "@connectrpc/connect";
import type { Broker } from "../../broker/broker.ts";
import type { ProviderService } from "../../gen/latchkey/v1/provider_pb.ts";
import { callerOf, pageOf } from "../server/context.ts";

export const providerService = ({ providers }: Broker): ServiceImpl<typeof ProviderService> => ({
  listProviders({ search, ...request }) {
    const { items, next } = providers.list({ search }, pageOf(request));
    return { providers: [...items], nextPageToken: next };
  },
  getProvider: async ({ name }) => ({ provider: await providers.findNow(name) }),
  async createProvider({ provider }, context) {
    if (provider === undefined) throw new Error("a validated request holds its provider");
    return { provider: await providers.create(provider, callerOf(context).keyId) };
  },
  async updateProvider({ provider, expectedRevision }, context) {
    if (provider === undefined) throw new Error("a validated request holds its provider");
    return { provider: await providers.update({ provider, expectedRevision }, callerOf(context).keyId) };
  },
  async deleteProvider({ name, expectedRevision }, context) {
    await providers.delete({ name, expectedRevision }, callerOf(context).keyId);
    return {};
  },
});
