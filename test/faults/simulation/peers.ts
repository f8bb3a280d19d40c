import { create } from "@bufbuild/protobuf";
import type { SendSmallRequest, SmallAnswer, SmallRequest } from "../../../src/base/small-requests.ts";
import { type Integration, IntegrationSchema } from "../../../src/gen/latchkey/v1/integration_pb.ts";
import { type Provider, ProviderSchema } from "../../../src/gen/latchkey/v1/provider_pb.ts";
import { TokenProvider } from "./token-provider.ts";
import { world } from "./world/world.ts";

/** A provider that issues tokens, and the application that webhooks are forwarded to. */
export interface Peers {
  readonly providers: readonly Provider[];
  readonly integrations: readonly Integration[];
  readonly send: SendSmallRequest;
  readonly sendToApplication: SendSmallRequest;
  readonly tokens: TokenProvider;
  /** Numbers of forwarded webhooks in the order of their first attempts, for each lane. */
  readonly arrived: ReadonlyMap<string, readonly number[]>;
  /** Those that the application accepted, as `lane number`. */
  readonly accepted: ReadonlySet<string>;
  readonly repeats: () => number;
  /** Whether the application answers with an error. */
  isFailing: boolean;
  /** How long an answer takes. */
  delayMs: number;
}

export function createPeers(): Peers {
  const tokens = new TokenProvider();
  let repeats = 0;
  const arrived = new Map<string, number[]>();
  const accepted = new Set<string>();

  async function sendTo(request: SmallRequest, answer: (body: string) => object | undefined): Promise<SmallAnswer> {
    const process = world.time.process;
    const travel = () => peers.delayMs * (0.2 + world.random());
    await new Promise<void>((resolve) => void world.time.after(travel(), resolve));
    // The far end has its own process.
    const found = answer(typeof request.body === "string" ? request.body : Buffer.from(request.body ?? "").toString());
    await new Promise<void>((resolve) => void world.time.afterIn(process, travel(), resolve));
    return answerOf(found === undefined ? 503 : 200, found ?? {});
  }

  const peers: Peers = {
    providers: [
      create(ProviderSchema, {
        name: "simulated",
        displayName: "Simulated",
        auth: {
          case: "oauth2",
          value: {
            authorizationUrl: "https://provider.example/authorize",
            tokenUrl: "https://provider.example/token",
          },
        },
        proxy: { baseUrl: "https://provider.example" },
      }),
    ],
    integrations: [
      create(IntegrationSchema, {
        ...{ environment: "dev", key: "tokens", provider: "simulated" },
        oauth: { clientId: "client" },
        secrets: { clientSecret: "secret" },
      }),
      create(IntegrationSchema, { environment: "dev", key: "keyed", provider: "example-api-key" }),
      create(IntegrationSchema, {
        ...{ environment: "dev", key: "calendar", provider: "calendar" },
        oauth: { clientId: "client" },
        secrets: { clientSecret: "secret" },
      }),
    ],
    send(request) {
      const { process: by, now: at } = world.time;
      const wallMs = world.time.wallMs();
      if (Math.abs(wallMs - world.time.trueWallMs()) > 60_000) world.count("token requests by wrong clocks");
      return sendTo(request, (body) => {
        const refreshToken = new URLSearchParams(body).get("refresh_token") ?? "";
        return by && tokens.refresh(refreshToken, { by, at, wallMs });
      });
    },
    sendToApplication: (request) =>
      sendTo(request, (body) => {
        const [, lane = "", number = "0"] =
          /"x-cal-channel-id":"([^"]+)","x-cal-message-number":"(\d+)"/.exec(body) ?? [];
        const known = arrived.get(lane) ?? [];
        arrived.set(lane, known);
        if (!known.includes(Number(number))) known.push(Number(number));
        if (peers.isFailing) return undefined;
        const name = `${lane} ${number}`;
        if (accepted.has(name)) repeats += 1;
        accepted.add(name);
        return {};
      }),
    tokens,
    arrived,
    accepted,
    repeats: () => repeats,
    isFailing: false,
    delayMs: 30,
  };
  return peers;
}

function answerOf(status: number, body: object): SmallAnswer {
  const fields = ["content-type", "application/json"];
  return {
    status,
    fields,
    header: (name) => (name === "content-type" ? "application/json" : undefined),
    body: Buffer.from(JSON.stringify(body)),
  };
}
