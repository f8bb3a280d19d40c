import type { Integration } from "../../gen/latchkey/v1/integration_pb.ts";
import type { Environments } from "./environments.ts";

/** URL that a provider sends an integration's webhooks to. */
export interface WebhookUrls {
  of(integration: Integration): Promise<string>;
}

interface WebhookUrlsOptions {
  readonly environments: Environments;
  /** Returns the public URL. If it is not configured, it is known only once the listeners are open. */
  readonly publicUrl: () => string;
}

/** The URL names the environment by its id, which cannot be guessed. */
export const createWebhookUrls = ({ environments, publicUrl }: WebhookUrlsOptions): WebhookUrls => ({
  async of({ environment, key }) {
    const { id } = await environments.get(environment);
    return `${publicUrl()}/webhook/${id}/${encodeURIComponent(key)}`;
  },
});
