import { expect } from "vitest";
import { paginationJson } from "../../../src/broker/syncs/toolbox/pagination-json.ts";
import { ConnectionService } from "../../../src/gen/latchkey/v1/connection_pb.ts";
import { IntegrationService } from "../../../src/gen/latchkey/v1/integration_pb.ts";
import { type Provider, RefreshTokenRules_Use as Use } from "../../../src/gen/latchkey/v1/provider_pb.ts";
import type { Pagination, ProxyConfiguration } from "../../../src/scripts/sdk.ts";
import { type PlayedAnswer, type ProviderFixture, readFixture } from "./fixture.ts";
import { paginate } from "./guest-paginate.ts";
import type { PlayedRequest } from "./played-provider.ts";
import {
  authorize,
  clientId,
  clientSecret,
  connectAnswers,
  detailOf,
  get,
  paramsOf,
  privateKey,
  textOf,
  tokenUrlsOf,
} from "./provider-run.ts";
import { callHeaders, environment, type ProvidersWorld, providerOf } from "./providers-world.ts";

/** Takes one provider through what its fixture says. */
export class ProviderTrial {
  readonly name: string;
  readonly provider: Provider;
  readonly fixture: ProviderFixture;
  readonly #world: () => ProvidersWorld;

  constructor(world: () => ProvidersWorld, name: string) {
    this.name = name;
    this.provider = providerOf(name);
    this.fixture = readFixture(name) ?? {};
    this.#world = world;
  }

  get isPaged(): boolean {
    return paginationJson(this.provider.proxy?.pagination) !== null;
  }

  get #id(): string {
    return this.#world().ids.get(this.name) ?? "made-by-import";
  }

  /** Whether end users authorize in a browser. */
  get #isAuthorized(): boolean {
    const { auth } = this.provider;
    return (
      auth.case === "oauth2" || auth.case === "oauth1" || (auth.case === "app" && this.fixture.callback !== undefined)
    );
  }

  #shown(query: string) {
    const { sidecar } = this.#world();
    return sidecar.rest("GET", `/connections/${this.#id}?provider_config_key=${this.name}&${query}`);
  }

  #proxied(path: string) {
    return get(`${this.#world().sidecar.data}/proxy${path}`, callHeaders(this.#world(), this.name));
  }

  /** Answers a request of the API; tokens are asked for where the kind of credentials needs them first. */
  #playApi(answer: (request: PlayedRequest) => PlayedAnswer | undefined): void {
    const { fixture } = this;
    const tokens = connectAnswers(this.provider, { ...fixture, describe: [] }, fixture.refresh ?? fixture.token);
    this.#world().played.play((request) => tokens(request) ?? answer(request));
  }

  #lastCall(): PlayedRequest | undefined {
    const tokenUrls = tokenUrlsOf(this.provider).map((url) => new URL(url.replace(/\$\{[^}]*\}/g, "x")).pathname);
    return this.#world().played.requests.findLast(({ url }) => !tokenUrls.includes(new URL(url).pathname));
  }

  /** Names what the description says and the fixture does not show. */
  lacking(): readonly string[] {
    const { fixture } = this;
    const { auth, verification, notification } = this.provider;
    const isRefreshed = auth.case === "oauth2" && auth.value.refreshTokens?.use !== Use.NONE;
    const lacking = {
      token: this.#isAuthorized && fixture.token === undefined,
      credentials: !this.#isAuthorized && auth.case !== "none" && fixture.credentials === undefined,
      refresh: isRefreshed && fixture.refresh === undefined,
      dead_grant: isRefreshed && fixture.dead_grant === undefined,
      call: fixture.call === undefined,
      pages: this.isPaged && fixture.pages === undefined,
      probe: verification !== undefined && fixture.probe === undefined,
      webhook: (notification?.signature?.scheme ?? "") !== "" && fixture.webhook === undefined,
      challenge: notification?.challenge !== undefined && fixture.challenge === undefined,
    };
    return Object.entries(lacking).flatMap(([field, isLacking]) => (isLacking ? [field] : []));
  }

  async connect(): Promise<void> {
    const { name, fixture } = this;
    const { settings = {} } = fixture;
    const integration = {
      environment,
      key: name,
      provider: name,
      settings,
      oauth: { clientId },
      secrets: { clientSecret, privateKey: signsItself(this.provider) ? privateKey() : "" },
    };
    await this.#world().sidecar.client(IntegrationService).createIntegration({ integration });
    if (this.#isAuthorized) await this.#authorize();
    else await this.#import();
    const { connection_config, metadata } = (await this.#shown("")).body;
    expect({ connection_config, metadata }).toMatchObject({
      connection_config: { ...fixture.connection_config, ...fixture.expect?.connection_config },
      metadata: { ...fixture.expect?.metadata },
    });
  }

  async #authorize(): Promise<void> {
    const { name, provider, fixture } = this;
    const { sidecar, played, ids } = this.#world();
    const { page, authorization } = await authorize({ sidecar, played, provider, fixture });
    const isDone = page.text.includes(fixture.choose === undefined ? "is connected" : "one more step");
    const outcome = isDone ? "connected" : textOf(page.text);
    expect([page.status, outcome]).toEqual([200, "connected"]);
    for (const [key, value] of Object.entries(fixture.authorization?.params ?? {}))
      expect([key, authorization.searchParams.get(key)]).toEqual([key, value]);
    if (provider.auth.case === "oauth2") {
      const tokenCall = played.requests.find((request) => Object.values(paramsOf(request)).includes("code-1"));
      expect(tokenCall && paramsOf(tokenCall)).toMatchObject(fixture.token?.request ?? {});
      expect(authorization.searchParams.has("code_challenge")).toBe(!provider.auth.value.noPkce);
    }
    const filter = { integrations: [name] };
    const { connections } = await sidecar.client(ConnectionService).listConnections({ environment, filter });
    expect(connections).toHaveLength(1);
    ids.set(name, connections[0]?.ref?.id ?? "");
    if (fixture.choose === undefined) return;
    const path = `/connections/${this.#id}/choices?provider_config_key=${name}`;
    const { status, body } = await sidecar.rest("POST", path, { body: { options: fixture.choose } });
    expect([status, body.error]).toEqual([200, undefined]);
  }

  async #import(): Promise<void> {
    const { name, provider, fixture } = this;
    this.#playApi((request) => detailOf(fixture, request));
    const { status, body } = await this.#world().sidecar.rest("POST", "/connections", {
      body: {
        provider_config_key: name,
        connection_id: this.#id,
        connection_config: fixture.connection_config ?? {},
        credentials: { type: typeOf(provider), ...withKey(fixture.credentials) },
      },
    });
    expect([status, body.error]).toEqual([201, undefined]);
    this.#world().ids.set(name, this.#id);
    // After an import, details are asked for in the background.
    await expect.poll(async () => (await this.#shown("")).body).toMatchObject(fixture.expect ?? {});
  }

  async call(): Promise<void> {
    const { path = "/", url, headers = {} } = this.fixture.call ?? {};
    this.#playApi(() => ({ body: { ok: true } }));
    const { status, text } = await this.#proxied(path);
    expect([status, text]).toEqual([200, '{"ok":true}']);
    const request = this.#lastCall();
    expect(request?.url).toBe(url);
    expect(request?.headers).toMatchObject(headers);
  }

  async pages(): Promise<void> {
    const { pages } = this.fixture;
    if (pages === undefined) throw new Error("the fixture has no pages");
    let asked = 0;
    this.#playApi(() => (asked++ === 0 ? pages.first : pages.second));
    const rules = paginationJson(this.provider.proxy?.pagination) as unknown as Partial<Pagination>;
    const items: unknown[] = [];
    const config = {
      endpoint: pages.path,
      ...(pages.list !== undefined && { paginate: { response_path: pages.list } }),
    };
    for await (const page of paginate(config, rules, (request) => this.#send(request))) {
      items.push(...page);
      if (asked >= 2) break;
    }
    expect([asked, items.length]).toEqual([2, pages.items]);
    expect(this.#lastCall()?.url).toContain(pages.second_request ?? "");
  }

  /** Sends a request of a script. */
  async #send({ endpoint, params }: ProxyConfiguration) {
    const address = new URL(endpoint, "https://relative.invalid");
    for (const [key, value] of Object.entries(params ?? {})) address.searchParams.set(key, String(value));
    const { status = 0, headers, text } = await this.#proxied(`${address.pathname}${address.search}`);
    const fields = Object.entries(headers).map(([field, value]): [string, string] => [field, String(value)]);
    const data = text === "" ? "" : JSON.parse(text);
    return { status, headers: Object.fromEntries(fields), data, config: { endpoint } };
  }

  /** The verdict on the credentials when the provider answers so. */
  async verdictOn(answer: PlayedAnswer | undefined) {
    this.#playApi(() => answer);
    const ref = { environment, integration: this.name, id: this.#id };
    return (await this.#world().sidecar.client(ConnectionService).verifyConnection({ ref })).verdict;
  }

  async refresh(): Promise<void> {
    const { fixture } = this;
    this.#world().played.play(connectAnswers(this.provider, fixture, fixture.refresh));
    const { status, body } = await this.#shown("force_refresh=true&refresh_token=true");
    expect([status, body.errors]).toEqual([200, []]);
    expect(this.#world().played.requests.length).toBeGreaterThan(0);
    const token = body.credentials.access_token ?? body.credentials.token;
    expect(JSON.stringify([fixture.refresh, fixture.exchanges])).toContain(token);
  }
}

/** Whether the key of the integration signs for all connections. */
const signsItself = ({ auth }: Provider): boolean =>
  auth.value !== undefined && "jwt" in auth.value && auth.value.jwt?.keyField === "";

const withKey = (credentials: ProviderFixture["credentials"] = {}) =>
  Object.fromEntries(
    Object.entries(credentials).map(([name, value]) => [name, value === "${privateKey}" ? privateKey() : value]),
  );

const types: Readonly<Record<string, string>> = {
  oauth2: "OAUTH2",
  oauth2Client: "OAUTH2_CC",
  oauth1: "OAUTH1",
  apiKey: "API_KEY",
  basic: "BASIC",
  tba: "TBA",
  app: "APP",
  jwt: "JWT",
  twoStep: "TWO_STEP",
  signature: "SIGNATURE",
  awsSigv4: "AWS_SIGV4",
  clientCertificate: "CLIENT_CERTIFICATE",
  none: "NONE",
};
const typeOf = ({ auth }: Provider): string => types[auth.case ?? "none"] ?? "NONE";
