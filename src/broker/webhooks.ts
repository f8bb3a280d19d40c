import type { Received } from "../core/notification.ts";

/** What providers tell. */
export interface Webhooks {
  /** Answers once what was told is stored, or says why it is not taken. */
  receive(asked: WebhookReceipt): Promise<WebhookAnswer>;
}

export interface WebhookReceipt {
  /** Nobody can guess it. */
  readonly environmentId: string;
  /** Its key. */
  readonly integration: string;
  readonly received: Received;
  readonly method: string;
  /** As the provider was given it, with the query that it added. */
  readonly url: string;
}

export interface WebhookAnswer {
  readonly status: number;
  /** As it stands, where the headers name a content type; anything else goes as JSON. */
  readonly body: unknown;
  readonly headers: Readonly<Record<string, string>>;
}
