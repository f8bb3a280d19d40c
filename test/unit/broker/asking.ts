import { once } from "node:events";
import { createServer as createHttpServer, type RequestListener, type Server } from "node:http";
import { createServer as createHttpsServer, type ServerOptions } from "node:https";
import type { AddressInfo } from "node:net";
import { create, type JsonObject, type MessageInitShape } from "@bufbuild/protobuf";
import { expect, onTestFinished } from "vitest";
import { TokenFailure, type TokenFailureKind } from "../../../src/auth/oauth2/tokens.ts";
import { createLog } from "../../../src/base/log.ts";
import { createMetrics } from "../../../src/base/metrics/metrics.ts";
import type { SendSmallRequest } from "../../../src/base/small-requests.ts";
import type { World } from "../../../src/base/world.ts";
import type { TokenEndpoint, TokenParties } from "../../../src/broker/tokens/token-endpoint.ts";
import { createTokenEndpoint } from "../../../src/broker/tokens/token-requests.ts";
import { defaultRelay } from "../../../src/config/limits.ts";
import { IntegrationSchema, IntegrationSecretsSchema } from "../../../src/gen/latchkey/v1/integration_pb.ts";
import { ProviderSchema } from "../../../src/gen/latchkey/v1/provider_pb.ts";
import { createEgress } from "../../../src/relay/egress.ts";
import { createSend } from "../../../src/relay/send.ts";
import { createUpstream, type UpstreamLimits } from "../../../src/relay/upstream.ts";

type ProviderInit = Extract<MessageInitShape<typeof ProviderSchema>, { $typeName?: never }>;
export type OAuth2 = Extract<NonNullable<ProviderInit["auth"]>, { case: "oauth2" }>["value"];

interface ProviderClientOptions {
  /** The value of `LATCHKEY_ALLOW_PRIVATE`. */
  readonly allow: readonly string[];
  readonly extraCa?: string | undefined;
  readonly limits?: Partial<UpstreamLimits>;
  readonly now?: () => number;
  readonly resolve?: (host: string) => Promise<{ address: string; family: number }[]>;
  /** Replaces the default of a minute. */
  readonly deadlineMs?: number;
}

/** The real connections to providers, and the requests that use them. */
export interface ProviderClient {
  readonly send: SendSmallRequest;
  readonly tokens: TokenEndpoint;
  readonly world: World;
  readonly logged: readonly string[];
  metrics(): Promise<string>;
}

export function providerClient({
  allow,
  extraCa,
  limits = {},
  now = Date.now,
  deadlineMs,
  resolve,
}: ProviderClientOptions): ProviderClient {
  const logged: string[] = [];
  const log = createLog({ level: "debug", format: "json", write: (line) => void logged.push(line) });
  const world: World = { now, log, metrics: createMetrics() };
  const egress = createEgress({
    resolve: resolve ?? (async () => [{ address: "127.0.0.1", family: 4 }]),
    allowPrivate: allow,
  });
  const upstream = createUpstream({ egress, limits: { ...defaultRelay, ...limits }, extraCa });
  onTestFinished(() => upstream.destroy());
  const direct = createSend(upstream);
  const send: SendSmallRequest =
    deadlineMs === undefined ? direct : (request, options) => direct(request, { ...options, deadlineMs });
  return {
    send,
    tokens: createTokenEndpoint({ send, world }),
    world,
    logged,
    metrics: async () => (await world.metrics.exposition()).text,
  };
}

interface Who {
  readonly provider: ProviderInit;
  readonly clientId?: string;
  readonly clientSecret?: string;
  readonly privateKey?: string;
  readonly scopes?: readonly string[];
  readonly connectionDefaults?: Readonly<Record<string, string>>;
  readonly connectionConfig?: JsonObject;
}

/** The client of a token request; default: the sandbox's predefined app. */
export function asking({
  provider,
  clientId = "sandbox",
  clientSecret = "sandbox-secret",
  privateKey = "",
  scopes = [],
  connectionDefaults = {},
  connectionConfig = {},
}: Who): TokenParties {
  return {
    provider: create(ProviderSchema, { name: "here", ...provider }),
    integration: create(IntegrationSchema, {
      key: "here",
      provider: "here",
      oauth: { clientId, scopes: [...scopes] },
      connectionDefaults: { ...connectionDefaults },
    }),
    secrets: create(IntegrationSecretsSchema, { clientSecret, privateKey }),
    connectionConfig,
  };
}

export const oauth2 = (value: OAuth2): ProviderInit => ({ auth: { case: "oauth2", value } });

/** The failure of a token request; any other error fails the test. */
export async function failureOf(asked: Promise<unknown>): Promise<TokenFailure> {
  try {
    await asked;
  } catch (error) {
    if (error instanceof TokenFailure) return error;
    throw error;
  }
  throw new Error("there was no failure");
}

export async function expectFailure(asked: Promise<unknown>, kind: TokenFailureKind, code?: string): Promise<void> {
  const failure = await failureOf(asked);
  expect([failure.kind, code === undefined ? undefined : failure.code]).toEqual([kind, code]);
}

export interface Serving {
  readonly port: number;
  /** With its scheme. */
  readonly origin: string;
  readonly server: Server;
}

/** A server of HTTP, or of HTTPS with a certificate, that is gone when the test has finished. */
export async function serve(listener: RequestListener, tls?: ServerOptions): Promise<Serving> {
  const server = tls === undefined ? createHttpServer(listener) : (createHttpsServer(tls, listener) as Server);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    server.close();
    server.closeAllConnections();
  });
  const { port } = server.address() as AddressInfo;
  return { port, server, origin: `${tls === undefined ? "http" : "https"}://127.0.0.1:${port}` };
}

/** The address of a local provider in a description: always `https`. */
export const secure = (origin: string): string => origin.replace(/^http:/, "https:");
