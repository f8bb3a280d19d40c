import type { ServiceImpl } from "@connectrpc/connect";
import type { Broker } from "../../broker/broker.ts";
import type { ProviderService } from "../../gen/latchkey/v1/provider_pb.ts";
import { callerOf, pageOf } from "../server/context.ts";
import { checkProviderText, providerText } from "./provider-text.ts";

export const providerService = ({ providers }: Broker): ServiceImpl<typeof ProviderService> => ({
  listProviders({ search, ...request }) {
    const { items, next } = providers.list({ search }, pageOf(request));
    return { providers: [...items], nextPageToken: next };
  },
  async getProvider({ name, includeText }) {
    const provider = await providers.findNow(name);
    return { provider, text: includeText ? await providerText(provider) : "" };
  },
  checkProvider: (request) => checkProviderText(request, providers),
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
