import type { Integration } from "../../gen/latchkey/v1/integration_pb.ts";
import type { Environments } from "./environments.ts";

/** Where a provider is told to send an integration's webhooks. */
export interface WebhookUrls {
  of(integration: Integration): Promise<string>;
}

interface WebhookUrlsOptions {
  readonly environments: Environments;
  /** Known once the doors listen, where it is not configured. */
  readonly publicUrl: () => string;
}

/** The environment stands there by its id, which nobody can guess. */
export const createWebhookUrls = ({ environments, publicUrl }: WebhookUrlsOptions): WebhookUrls => ({
  async of({ environment, key }) {
    const { id } = await environments.get(environment);
    return `${publicUrl()}/webhook/${id}/${encodeURIComponent(key)}`;
  },
});
