import { createHash } from "node:crypto";
import { expect } from "vitest";
import { waysOf } from "../../../src/core/notifications/proof.ts";
import { IntegrationService } from "../../../src/gen/latchkey/v1/integration_pb.ts";
import type { SignatureRules } from "../../../src/gen/latchkey/v1/provider_pb.ts";
import { WebhookService } from "../../../src/gen/latchkey/v1/webhook_pb.ts";
import { webhookMutations } from "../wire/webhook-mutations.ts";
import type { ChallengeVector, WebhookVector } from "./fixture.ts";
import { environment, type ProvidersWorld, providerOf } from "./providers-world.ts";
import { jwkSet, webhookHeaders } from "./webhook-headers.ts";

/** Schemes that compare a token: a webhook has fewer places to change. */
const tokenSchemes = ["shared_token", "channel_token", "basic"];

/** Sends the webhooks of one provider: as they should be, and changed. */
export class WebhookTrial {
  readonly #name: string;
  readonly #world: () => ProvidersWorld;

  constructor(world: () => ProvidersWorld, name: string) {
    this.#name = name;
    this.#world = world;
  }

  async check(vector: WebhookVector): Promise<void> {
    const { clock, ids } = this.#world();
    try {
      clock.ms = vector.at === undefined ? undefined : Date.parse(vector.at);
      await this.#useSecrets(vector);
      const { status, text } = await this.#sendAsIs(vector);
      expect([status, vector.answer?.body === undefined ? "" : text]).toEqual([200, vector.answer?.body ?? ""]);
      const stored = await this.#newest();
      expect(stored).toMatchObject({
        ...(vector.kind !== undefined && { kinds: [vector.kind] }),
        ...(vector.message_id !== undefined && { messageId: vector.message_id }),
      });
      if (vector.matches !== undefined)
        expect(stored?.matches.map(({ id }) => id)).toEqual(vector.matches ? [ids.get(this.#name)] : []);
      await this.#refuseMutations(vector);
    } finally {
      clock.ms = undefined;
    }
  }

  async challenge({ answer, hashed = "", ...vector }: ChallengeVector): Promise<void> {
    const { clock } = this.#world();
    try {
      clock.ms = vector.at === undefined ? undefined : Date.parse(vector.at);
      await this.#useSecrets(vector);
      const { status, text, headers } = await this.#sendAsIs(vector);
      const isObject = typeof answer.body === "object" && answer.body !== null;
      const hash = createHash("sha256")
        .update(hashed.replaceAll("${url}", await this.#url({})))
        .digest("hex");
      const body = isObject ? answer.body : String(answer.body ?? "").replaceAll("${hash}", hash);
      expect([status, isObject ? JSON.parse(text) : text]).toEqual([answer.status ?? 200, body]);
      expect(Object.fromEntries(headers)).toMatchObject(answer.headers ?? {});
    } finally {
      clock.ms = undefined;
    }
  }

  async #newest() {
    const request = { environment, integration: this.#name, pageSize: 1 };
    const { notifications } = await this.#world().sidecar.client(WebhookService).listNotifications(request);
    return notifications[0];
  }

  async #useSecrets({ secret, client_secret }: Pick<WebhookVector, "secret" | "client_secret">): Promise<void> {
    if (secret === undefined && client_secret === undefined) return;
    const secrets = {
      ...(secret !== undefined && { webhookSecret: secret }),
      ...(client_secret !== undefined && { clientSecret: client_secret }),
    };
    const paths = [
      ...(secret === undefined ? [] : ["secrets.webhook_secret"]),
      ...(client_secret === undefined ? [] : ["secrets.client_secret"]),
    ];
    await this.#world()
      .sidecar.client(IntegrationService)
      .updateIntegration({ integration: { environment, key: this.#name, secrets }, updateMask: { paths } });
  }

  async #url({ query = {} }: Pick<WebhookVector, "query">): Promise<string> {
    const { body } = await this.#world().sidecar.rest("GET", `/integrations/${this.#name}?include=webhook`);
    const search = new URLSearchParams(query).toString();
    return `${body.data.webhook_url}${search === "" ? "" : `?${search}`}`;
  }

  async #sendAsIs(vector: WebhookVector) {
    const url = await this.#url(vector);
    const { clock, played } = this.#world();
    const jwksUrl = providerOf(this.#name).notification?.signature?.jwksUrl;
    played.play(({ method, url: asked }) => {
      if (vector.jwt !== undefined && asked === jwksUrl) return { body: jwkSet() };
      return vector.keys?.find(({ request }) => request === `${method} ${asked}`);
    });
    return send(url, vector, webhookHeaders(vector, url, clock.ms ?? Date.now()));
  }

  async #refuseMutations(vector: WebhookVector): Promise<void> {
    const { notification } = providerOf(this.#name);
    const ways = notification === undefined ? [] : waysOf(notification);
    // The way of this webhook is the one whose header it has.
    const rules = ways.find((way) => hasHeaderOf(way, vector)) ?? ways[0];
    if (rules === undefined || rules.scheme === "" || vector.secret === "") return;
    const { clock } = this.#world();
    const url = await this.#url(vector);
    const { method = "POST", body = "", secret = "" } = vector;
    const nowMs = clock.ms ?? Date.now();
    const sent = Object.entries(webhookHeaders(vector, url, nowMs));
    const fields = sent.map(([field, value]) => [field.toLowerCase(), value]);
    const headers = Object.fromEntries(fields);
    const mutations = webhookMutations({ method, url, headers, body, secret, nowMs }, rules);
    const accepted: string[] = [];
    for (const mutated of mutations) {
      if (mutated.secret !== secret) await this.#useSecrets({ secret: mutated.secret });
      clock.ms = mutated.nowMs;
      const { status } = await send(mutated.url, mutated, latin1(mutated.headers));
      if (status < 400) accepted.push(mutated.mutation);
      clock.ms = nowMs;
      if (mutated.secret !== secret) await this.#useSecrets({ secret });
    }
    expect(accepted).toEqual([]);
    expect(mutations.length).toBeGreaterThanOrEqual(tokenSchemes.includes(rules.scheme) ? 1 : 12);
  }
}

const hasHeaderOf = ({ scheme, header }: SignatureRules, { headers = {} }: WebhookVector): boolean =>
  (header || (scheme === "standard_webhooks" ? "webhook-signature" : "")) in headers;

async function send(
  url: string,
  { method = "POST", body }: Pick<WebhookVector, "method" | "body">,
  sent: Readonly<Record<string, string>>,
) {
  const bodied = method === "GET" || method === "HEAD" ? {} : { body: body ?? "" };
  const headers = { "content-type": "application/json", ...sent };
  const response = await fetch(url, { method, headers, ...bodied });
  return { status: response.status, text: await response.text(), headers: response.headers };
}

/** Fetch sends header values as latin1. */
const latin1 = (headers: Readonly<Record<string, string>>) =>
  Object.fromEntries(Object.entries(headers).map(([field, value]) => [field, Buffer.from(value).toString("latin1")]));
