import { type Command, Option } from "commander";
import {
  DeleteIntegrationResponseSchema,
  Integration_Callback,
  Integration_Reflection,
  Integration_UseRecord,
  IntegrationSchema,
  IntegrationService,
  OAuthApp_Publishing,
} from "../../gen/latchkey/v1/integration_pb.ts";
import type { Act } from "../session.ts";
import { readSecret } from "../terminal/input.ts";
import { listed, paired, revision } from "../terminal/option-values.ts";
import { pagesOf } from "../terminal/paging.ts";
import type { Terminal } from "../terminal/terminal.ts";
import { UsageMistake } from "../terminal/usage-mistake.ts";

const callbacks = { shared: Integration_Callback.SHARED, bound: Integration_Callback.BOUND } as const;
const reflections = {
  off: Integration_Reflection.OFF,
  mask: Integration_Reflection.MASK,
  refuse: Integration_Reflection.REFUSE,
} as const;
const useRecords = {
  off: Integration_UseRecord.OFF,
  host: Integration_UseRecord.HOST,
  path: Integration_UseRecord.PATH,
} as const;
const publishings = { testing: OAuthApp_Publishing.TESTING, production: OAuthApp_Publishing.PRODUCTION } as const;

interface IntegrationOptions {
  readonly displayName?: string;
  readonly clientId?: string;
  readonly clientSecretFile?: string;
  readonly clientSecretEnv?: string;
  readonly webhookSecretFile?: string;
  readonly privateKeyFile?: string;
  readonly clientCertificateFile?: string;
  readonly clientPrivateKeyFile?: string;
  readonly scope?: readonly string[];
  readonly publishing?: keyof typeof publishings;
  readonly callback?: keyof typeof callbacks;
  readonly reflection?: keyof typeof reflections;
  readonly useRecord?: keyof typeof useRecords;
  readonly keepSetCookie?: boolean;
  readonly credentialsInScripts?: boolean;
  readonly host?: readonly string[];
  readonly automaticChannels?: boolean;
  readonly catchUpSync?: readonly string[];
  readonly forward?: boolean;
  readonly connectionDefault?: Readonly<Record<string, string>>;
  readonly expectedRevision?: bigint;
}

/** Adds the `integrations` commands. */
export function addIntegrations(program: Command, act: Act): void {
  const group = program.command("integrations").summary("providers set up with an OAuth app of one's own");

  group
    .command("list")
    .option("--provider <name>", "only those of this provider")
    .summary("an environment's integrations")
    .action(
      act(async ({ client, output, environment }, { provider = "" }: { readonly provider?: string }) => {
        const fetch = async (page: { readonly pageSize: number; readonly pageToken: string }) => {
          const request = { environment, provider, ...page };
          const { integrations, nextPageToken } = await client(IntegrationService).listIntegrations(request);
          return { items: integrations, nextPageToken };
        };
        await output.many({
          schema: IntegrationSchema,
          none: "no integrations",
          pages: pagesOf({ fetch, maxPageSize: 1_000 }),
          columns: [
            { title: "KEY", text: ({ key }) => key },
            { title: "PROVIDER", text: ({ provider: of }) => of },
            { title: "CALLED", text: ({ displayName }) => displayName },
            { title: "CLIENT ID", text: ({ oauth }) => oauth?.clientId ?? "" },
            { title: "DECLARED", text: ({ declared }) => (declared ? "yes" : "") },
            { title: "WARNINGS", text: ({ warnings }) => warnings.map(({ code }) => code).join(",") },
          ],
        });
      }),
    );

  group
    .command("get")
    .argument("<key>")
    .summary("one integration, without its secrets")
    .action(
      act(async ({ client, output, environment }, key: string) => {
        const { integration } = await client(IntegrationService).getIntegration({ environment, key });
        if (integration !== undefined) await output.one(IntegrationSchema, integration);
      }),
    );

  withSettings(group.command("create"))
    .argument("<key>", "its key, the provider_config_key, for good")
    .requiredOption("--provider <name>", "its provider, for good")
    .summary("set a provider up in an environment")
    .action(
      act(
        async (
          { client, output, environment, terminal },
          key: string,
          given: IntegrationOptions & { readonly provider: string },
        ) => {
          const { fields } = await readSettings(given, terminal);
          const request = { integration: { ...fields, environment, key, provider: given.provider } };
          const { integration } = await client(IntegrationService).createIntegration(request);
          if (integration !== undefined) await output.one(IntegrationSchema, integration);
        },
      ),
    );

  withSettings(group.command("update"))
    .argument("<key>")
    .option("--expected-revision <revision>", "refuse when it has changed since", revision)
    .summary("change what is given, and nothing else")
    .action(
      act(async ({ client, output, environment, terminal }, key: string, given: IntegrationOptions) => {
        const { fields, paths } = await readSettings(given, terminal);
        if (paths.length === 0) throw new UsageMistake("say what to change, such as --client-id (see --help)");
        // The request must name the provider, and the mask only supports `channels` as a whole: read both first.
        const { integration: before } = await client(IntegrationService).getIntegration({ environment, key });
        const {
          automatic = before?.channels?.automatic ?? false,
          catchUpSyncs = before?.channels?.catchUpSyncs ?? [],
        } = fields.channels;
        // Values that were read and are written back must be unchanged.
        const readRevision = paths.includes("channels") ? before?.revision : undefined;
        const { integration } = await client(IntegrationService).updateIntegration({
          integration: {
            ...fields,
            channels: { automatic, catchUpSyncs },
            environment,
            key,
            provider: before?.provider ?? "",
          },
          updateMask: { paths },
          expectedRevision: given.expectedRevision ?? readRevision ?? 0n,
        });
        if (integration !== undefined) await output.one(IntegrationSchema, integration);
      }),
    );

  group
    .command("delete")
    .argument("<key>")
    .option("--expected-revision <revision>", "refuse when it has changed since", revision)
    .summary("delete an integration that has no connection any more")
    .action(
      act(async ({ client, output, environment }, key: string, { expectedRevision = 0n }: IntegrationOptions) => {
        const answer = await client(IntegrationService).deleteIntegration({ environment, key, expectedRevision });
        await output.done(DeleteIntegrationResponseSchema, answer, `deleted integration ${key}`);
      }),
    );
}

/** Secrets are never arguments: any user who lists the machine's processes sees arguments. */
const withSettings = (command: Command): Command =>
  command
    .option("--display-name <name>", "what a person calls it")
    .option("--client-id <id>", "of the OAuth app")
    .addOption(
      new Option("--client-secret-file <file>", "holds the OAuth app's secret; - reads what is piped in").conflicts(
        "clientSecretEnv",
      ),
    )
    .option("--client-secret-env <variable>", "the environment variable that holds the OAuth app's secret")
    .option("--webhook-secret-file <file>", "holds what the provider signs its webhooks with")
    .option("--private-key-file <file>", "holds the PEM key that signs assertions or mints tokens")
    .option(
      "--client-certificate-file <file>",
      "holds the PEM certificate that is shown to the provider on each TLS connection",
    )
    .option("--client-private-key-file <file>", "holds the PEM key of that certificate")
    .option("--scope <scope>", "asked of each end user; repeatable, replaces all", listed)
    .addOption(
      new Option("--publishing <state>", "how far the OAuth app is published").choices(Object.keys(publishings)),
    )
    .addOption(new Option("--callback <form>", "the form of the redirect URI").choices(Object.keys(callbacks)))
    .addOption(
      new Option("--reflection <way>", "what to do when the provider echoes a credential").choices(
        Object.keys(reflections),
      ),
    )
    .addOption(
      new Option(
        "--use-record <how>",
        "a line in the log for each use of a connection: with its host, or its path",
      ).choices(Object.keys(useRecords)),
    )
    .option("--keep-set-cookie", "pass the provider's Set-Cookie on")
    .option("--no-keep-set-cookie", "leave it out")
    .option("--credentials-in-scripts", "show scripts the credentials of their connections")
    .option("--no-credentials-in-scripts", "let scripts use them, and not see them")
    .option(
      "--host <origin>",
      "a further origin that credentials may travel to, for Base-Url-Override; repeatable, replaces all",
      listed,
    )
    .option("--automatic-channels", "make and keep notification channels without being asked")
    .option("--no-automatic-channels", "leave notification channels to the application")
    .option("--catch-up-sync <name>", "a sync to run when a channel lost something; repeatable, replaces all", listed)
    .option("--forward", "forward notifications to the application")
    .option("--no-forward", "do not: only syncs hear of them")
    .option(
      "--connection-default <key=value>",
      "of connection_config, where a connection has none; repeatable, replaces all",
      paired,
    );

interface ReadSettings {
  readonly fields: IntegrationFields;
  /** The update mask for the fields. */
  readonly paths: string[];
}

type IntegrationFields = ReturnType<typeof fieldsOf>;

async function readSettings(given: IntegrationOptions, terminal: Terminal): Promise<ReadSettings> {
  const { clientSecretFile, webhookSecretFile, privateKeyFile, clientCertificateFile, clientPrivateKeyFile } = given;
  const files = [clientSecretFile, webhookSecretFile, privateKeyFile, clientCertificateFile, clientPrivateKeyFile];
  if (files.filter((file) => file === "-").length > 1) throw new UsageMistake("only one secret can be piped in");
  const read = (file: string | undefined) => (file === undefined ? undefined : readSecret(file, terminal));
  const secrets = {
    clientSecret: secretFromEnv(given.clientSecretEnv, terminal) ?? (await read(clientSecretFile)),
    webhookSecret: await read(webhookSecretFile),
    privateKey: await read(privateKeyFile),
    clientCertificate: await read(clientCertificateFile),
    clientPrivateKey: await read(clientPrivateKeyFile),
  };
  const mask = {
    display_name: given.displayName,
    "oauth.client_id": given.clientId,
    "oauth.scopes": given.scope,
    "oauth.publishing": given.publishing,
    "secrets.client_secret": secrets.clientSecret,
    "secrets.webhook_secret": secrets.webhookSecret,
    "secrets.private_key": secrets.privateKey,
    "secrets.client_certificate": secrets.clientCertificate,
    "secrets.client_private_key": secrets.clientPrivateKey,
    callback: given.callback,
    reflection: given.reflection,
    hosts: given.host,
    channels: given.automaticChannels ?? given.catchUpSync,
    no_forward: given.forward,
    connection_defaults: given.connectionDefault,
    use_record: given.useRecord,
    keep_set_cookie: given.keepSetCookie,
    credentials_in_scripts: given.credentialsInScripts,
  };
  const paths = Object.entries(mask).flatMap(([path, value]) => (value === undefined ? [] : [path]));
  return { fields: fieldsOf(given, secrets), paths };
}

type SecretField = "clientSecret" | "webhookSecret" | "privateKey" | "clientCertificate" | "clientPrivateKey";

function fieldsOf(given: IntegrationOptions, secrets: Readonly<Record<SecretField, string | undefined>>) {
  const { clientSecret = "", webhookSecret = "", privateKey = "" } = secrets;
  const { clientCertificate = "", clientPrivateKey = "" } = secrets;
  return {
    displayName: given.displayName ?? "",
    oauth: {
      clientId: given.clientId ?? "",
      scopes: [...(given.scope ?? [])],
      publishing: given.publishing === undefined ? OAuthApp_Publishing.UNSPECIFIED : publishings[given.publishing],
    },
    secrets: { clientSecret, webhookSecret, privateKey, clientCertificate, clientPrivateKey },
    callback: given.callback === undefined ? Integration_Callback.UNSPECIFIED : callbacks[given.callback],
    reflection: given.reflection === undefined ? Integration_Reflection.UNSPECIFIED : reflections[given.reflection],
    hosts: (given.host ?? []).map(hostRule),
    channels: {
      ...(given.automaticChannels === undefined ? {} : { automatic: given.automaticChannels }),
      ...(given.catchUpSync === undefined ? {} : { catchUpSyncs: [...given.catchUpSync] }),
    },
    noForward: given.forward === false,
    connectionDefaults: { ...given.connectionDefault },
    useRecord: given.useRecord === undefined ? Integration_UseRecord.UNSPECIFIED : useRecords[given.useRecord],
    keepSetCookie: given.keepSetCookie === true,
    credentialsInScripts: given.credentialsInScripts === true,
  };
}

function secretFromEnv(name: string | undefined, { env }: Terminal): string | undefined {
  if (name === undefined) return undefined;
  const secret = env[name];
  if (!secret) throw new UsageMistake(`the environment variable ${name} is not set`);
  return secret;
}

/** Parses an origin. The server ignores a prefix before it (`/gmail/=https://mail.example.com`) and warns. */
function hostRule(text: string): { readonly prefix: string; readonly origin: string } {
  const at = text.startsWith("/") ? text.indexOf("=") : -1;
  return { prefix: text.slice(0, Math.max(0, at)), origin: text.slice(at + 1) };
}
