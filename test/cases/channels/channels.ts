import { Code, ConnectError } from "@connectrpc/connect";
import { allowPrivateFor, describeProviders } from "../../../src/dev/sandbox/providers.ts";
import type { SandboxOptions } from "../../../src/dev/sandbox/sandbox.ts";
import {
  type Channel,
  Channel_StateSchema,
  ChannelService,
  Channel_State as State,
} from "../../../src/gen/latchkey/v1/channel_pb.ts";
import { SystemService } from "../../../src/gen/latchkey/v1/system_pb.ts";
import { type Application, startApplication } from "../../support/peers/application.ts";
import { type HarnessOptions, startTestSidecar, type TestSidecar } from "../../support/sidecar/harness.ts";
import { type Started, started } from "../sandbox/started.ts";

export const provider = "sandbox-calendar";
export const hourMs = 3_600_000;
export const dayMs = 24 * hourMs;

/** A clock that the sidecar and the provider share; it moves only when told to. */
export interface Clock {
  now: () => number;
  pass(ms: number): void;
}

export function startClock(): Clock {
  let ms = Date.now();
  return {
    now: () => ms,
    pass(by) {
      ms += by;
    },
  };
}

interface Watching extends Pick<HarnessOptions, "folder" | "env"> {
  readonly automatic?: boolean;
  readonly sandbox?: SandboxOptions;
  readonly clock?: Clock;
  /** Overrides of the provider's channel rules. */
  readonly rules?: Readonly<Record<string, unknown>>;
  /** Further parts of the configuration file. */
  readonly settings?: Readonly<Record<string, unknown>>;
}

/** A sidecar, an application, and a provider whose calendars can be watched. */
export async function startWatching({
  automatic = false,
  sandbox: options = {},
  clock = startClock(),
  ...rest
}: Watching = {}) {
  const sandbox: Started = await started({ ...options, now: clock.now });
  const application: Application = await startApplication();
  const described = describeProviders(sandbox.origin).map((one) =>
    one.name === provider ? { ...one, channel: { ...Object(one["channel"]), ...rest.rules } } : one,
  );
  const env = {
    LATCHKEY_ALLOW_PRIVATE: allowPrivateFor(sandbox.origin),
    LATCHKEY_FORWARD_URL: application.url,
    ...rest.env,
  };
  const file = JSON.stringify({ ...rest.settings, providers: described });
  const start = (folder = rest.folder): Promise<TestSidecar> =>
    startTestSidecar({
      ...(folder === undefined ? {} : { folder }),
      now: clock.now,
      env: { ...env, ...rest.env, LATCHKEY_CONFIG: "/latchkey.yaml" },
      files: { "/latchkey.yaml": file },
    });
  let sidecar = await start();
  const integration = {
    unique_key: provider,
    provider,
    credentials: { type: "OAUTH2", client_id: "sandbox", client_secret: "sandbox-secret" },
  };
  const made = await sidecar.rest("POST", "/integrations", { body: integration });
  if (made.status !== 200) throw new Error(`the integration was not made: ${JSON.stringify(made.body)}`);
  if (automatic) await makeAutomatic();

  async function makeAutomatic(): Promise<void> {
    const { IntegrationService } = await import("../../../src/gen/latchkey/v1/integration_pb.ts");
    await sidecar.client(IntegrationService).updateIntegration({
      integration: { environment: "dev", key: provider, provider, channels: { automatic: true } },
      updateMask: { paths: ["channels"] },
    });
  }

  const watching = {
    sandbox,
    application,
    clock,
    env,
    /** The configuration file. */
    file,
    get sidecar() {
      return sidecar;
    },
    /** Starts another sidecar, over another store or the same one. */
    start,
    makeAutomatic,
    async restart(): Promise<TestSidecar> {
      const { folder } = sidecar;
      await sidecar.stop();
      sidecar = await start(folder);
      return sidecar;
    },
    /** A connection with tokens of the sandbox's. */
    async connect(id: string, { user = "ada@example.com", client = "sandbox", more = {} } = {}) {
      const { access_token, refresh_token } = sandbox.grant({ user, client });
      const expires_at = new Date(clock.now() + hourMs).toISOString();
      const { status, body } = await sidecar.rest("POST", "/connections", {
        body: {
          provider_config_key: provider,
          connection_id: id,
          credentials: { type: "OAUTH2", access_token, refresh_token, expires_at },
          ...more,
        },
      });
      if (status !== 201) throw new Error(`the connection was not made: ${JSON.stringify(body)}`);
    },
    ref: (id: string) => ({ environment: "dev", integration: provider, id }),
    rpc: () => sidecar.client(ChannelService),
    /** Codes and messages of the warnings about channels. */
    async warnings(): Promise<readonly string[]> {
      const { warnings } = await sidecar.client(SystemService).listWarnings({});
      return warnings.flatMap(({ code, message }) => (code.startsWith("channels_") ? [`${code}: ${message}`] : []));
    },
    /** Processes all due channels. */
    keep: () => sidecar.sidecar.broker.keepChannels(),
    async channels(states: readonly State[] = []): Promise<readonly Channel[]> {
      const { channels } = await sidecar
        .client(ChannelService)
        .listChannels({ environment: "dev", states: [...states] });
      return channels;
    },
    async current(): Promise<Channel | undefined> {
      return (await watching.channels([State.ACTIVE, State.RENEWING]))[0];
    },
    async metadata(id: string) {
      return (await sidecar.rest("GET", `/connections/${id}?provider_config_key=${provider}`)).body.metadata;
    },
    remove: (id: string) => sidecar.rest("DELETE", `/connections/${id}?provider_config_key=${provider}`),
    /** The live channels at the provider. */
    live: () => sandbox.seen().channels,
    requests: (endpoint: "watch" | "stop") => sandbox.seen().requests[endpoint] ?? 0,
    /** The parsed messages of one type that the application received. */
    forwards: (type: string) => application.seen.map(({ body }) => JSON.parse(body)).filter((one) => one.type === type),
  };
  return watching;
}

/** The state of a channel, by id. */
export const stateIn = (channels: readonly Channel[], id: string | undefined): string =>
  Channel_StateSchema.value[channels.find((one) => one.id === id)?.state ?? 0]?.name ?? "";

export { State };

/** The code that a call is refused with, as the protocol writes it. */
export async function codeOf(call: Promise<unknown>): Promise<string> {
  try {
    await call;
    return "ok";
  } catch (error) {
    return error instanceof ConnectError ? codeToString(error.code) : String(error);
  }
}

const codeToString = (code: Code): string => (Code[code] ?? "").replace(/(?<!^)([A-Z])/g, "_$1").toLowerCase();
