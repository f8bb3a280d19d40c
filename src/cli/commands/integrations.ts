import { type Command, Option } from "commander";
import { scopesIn } from "../../core/granted-scopes.ts";
import {
  DeleteIntegrationResponseSchema,
  Integration_Callback,
  Integration_Reflection,
  Integration_UseRecord,
  IntegrationSchema,
  IntegrationService,
  IntegrationSetupSchema,
  OAuthApp_Publishing,
} from "../../gen/latchkey/v1/integration_pb.ts";
import type { Act, CommandSession } from "../session.ts";
import { requireYes, withYes, type YesOption } from "../terminal/confirm.ts";
import { escapeControl } from "../terminal/escape-control.ts";
import { readSecret } from "../terminal/input.ts";
import { listed, paired } from "../terminal/option-values.ts";
import type { Terminal } from "../terminal/terminal.ts";
import { UsageMistake } from "../terminal/usage-mistake.ts";
import { listCommand, objectCommand, type RevisionOption, withExpectedRevision } from "./command-kinds.ts";
import { addDiscovery } from "./integration-discovery.ts";
import { askForIntegration, sayNextSteps } from "./integration-wizard.ts";

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

interface IntegrationOptions extends RevisionOption {
  readonly displayName?: string;
  readonly clientId?: string;
  readonly clientSecretFile?: string;
  readonly clientSecretEnv?: string;
  readonly webhookSecretFile?: string;
  readonly privateKeyFile?: string;
  readonly clientCertificateFile?: string;
  readonly clientPrivateKeyFile?: string;
  readonly scope?: readonly string[];
  readonly furtherScope?: Readonly<Record<string, string>>;
  readonly publishing?: keyof typeof publishings;
  readonly callback?: keyof typeof callbacks;
  readonly reflection?: keyof typeof reflections;
  readonly useRecord?: keyof typeof useRecords;
  readonly keepSetCookie?: boolean;
  readonly credentialsInScripts?: boolean;
  readonly keepGrants?: boolean;
  readonly host?: readonly string[];
  readonly automaticChannels?: boolean;
  readonly catchUpSync?: readonly string[];
  readonly forward?: boolean;
  readonly connectionDefault?: Readonly<Record<string, string>>;
  readonly setting?: Readonly<Record<string, string>>;
  readonly settingFile?: Readonly<Record<string, string>>;
}

/** Adds the `integrations` commands. */
export function addIntegrations(program: Command, act: Act): void {
  const group = program.command("integrations").summary("manage integrations: providers with your own OAuth app");
  addList(group, act);
  addGet(group, act);
  addSetup(group, act);
  addCreate(group, act);
  addUpdate(group, act);
  addDelete(group, act);
  addDiscovery(group, act, keyArgument);
}

function addList(group: Command, act: Act): void {
  const list = group
    .command("list")
    .summary("list the integrations of an environment")
    .option("--provider <name>", "only integrations of this provider");
  listCommand(list, act, {
    schema: IntegrationSchema,
    none: "no integrations",
    rpc: ({ client, environment }, page, { provider = "" }: { readonly provider?: string }) =>
      client(IntegrationService).listIntegrations({ environment, provider, ...page }),
    items: ({ integrations }) => integrations,
    columns: [
      { title: "KEY", text: ({ key }) => key },
      { title: "PROVIDER", text: ({ provider }) => provider },
      { title: "NAME", text: ({ displayName }) => displayName },
      { title: "CLIENT ID", text: ({ oauth }) => oauth?.clientId ?? "" },
      { title: "DECLARED", text: ({ declared }) => (declared ? "yes" : "") },
      { title: "WARNINGS", text: ({ warnings }) => warnings.map(({ code }) => code).join(",") },
    ],
  });
}

const keyArgument = ["<key>", "key of the integration, for example calendar"] as const;

function addGet(group: Command, act: Act): void {
  const get = group
    .command("get")
    .summary("show an integration, without its secrets")
    .argument(...keyArgument);
  objectCommand(get, act, IntegrationSchema, async ({ client, environment }, key: string) => {
    const { integration } = await client(IntegrationService).getIntegration({ environment, key });
    return integration;
  });
}

function addSetup(group: Command, act: Act): void {
  const setup = group
    .command("setup")
    .summary("show what an integration needs: fields, URLs to register, steps at the provider")
    .argument("<key>", "key of an integration, or of one to create")
    .option("--provider <name>", "provider of an integration to create");
  objectCommand(
    setup,
    act,
    IntegrationSetupSchema,
    async ({ client, environment }, key: string, { provider = "" }: { readonly provider?: string }) =>
      (await client(IntegrationService).getIntegrationSetup({ environment, key, provider })).setup,
  );
}

type CreateOptions = IntegrationOptions & {
  readonly provider?: string;
  readonly mcp?: string;
  readonly quickstart?: true;
};

function addCreate(group: Command, act: Act): void {
  withSettings(group.command("create"))
    .summary("create an integration; asks for what you leave out, on a terminal")
    .argument("[key]", "name of the integration (provider_config_key); cannot be changed later")
    .option("--provider <name>", "its provider; cannot be changed later")
    .addOption(
      new Option("--mcp <url>", "URL of an MCP server, in place of a provider; needs nothing else").conflicts([
        "provider",
        "quickstart",
      ]),
    )
    .option("--quickstart", "use the provider's public test client, such as that of the sandbox, as the OAuth app")
    .action(
      act(async (session, givenKey: string | undefined, given: CreateOptions) => {
        const { client, environment, terminal, output } = session;
        const { mcp: mcpUrl = "" } = given;
        const isComplete = givenKey !== undefined && (given.provider !== undefined || mcpUrl !== "");
        if (!isComplete && terminal.canAsk !== true) throw missingForCreate(givenKey, given);
        const { key, provider, options, clientSecret } = await completed(session, givenKey, given);
        const { fields } = await readSettings(options, terminal);
        const secrets = clientSecret === undefined ? fields.secrets : { ...fields.secrets, clientSecret };
        const integrationToCreate = { ...fields, secrets, environment, key, provider, mcpUrl };
        const request = { integration: integrationToCreate, quickstart: given.quickstart === true };
        const { integration } = await client(IntegrationService).createIntegration(request);
        if (integration === undefined) return;
        if (isComplete || output.json) await output.one(IntegrationSchema, integration);
        else await output.line(`\nCreated the integration ${escapeControl(key)}.`);
        if (terminal.isTerminal && !output.json) await sayNextSteps(session, integration);
      }),
    );
}

/** Returns what is given, and asks for what is missing. */
async function completed(session: CommandSession, key: string | undefined, given: CreateOptions) {
  const { provider } = given;
  if (key !== undefined && given.mcp !== undefined) {
    return { key, provider: "", options: given, clientSecret: undefined };
  }
  if (key !== undefined && provider !== undefined) return { key, provider, options: given, clientSecret: undefined };
  const hasClientSecret = given.clientSecretFile !== undefined || given.clientSecretEnv !== undefined;
  const { displayName, clientId, scope: scopes } = given;
  const answers = await askForIntegration(session, { key, provider, displayName, clientId, scopes, hasClientSecret });
  const options: CreateOptions = {
    ...given,
    ...(answers.clientId !== undefined && { clientId: answers.clientId }),
    ...(answers.scopes !== undefined && { scope: answers.scopes }),
  };
  return { key: answers.key, provider: answers.provider, options, clientSecret: answers.clientSecret };
}

function missingForCreate(key: string | undefined, { provider, mcp }: CreateOptions): UsageMistake {
  const hasProvider = provider !== undefined || mcp !== undefined;
  const missing = [...(key === undefined ? ["the name"] : []), ...(hasProvider ? [] : ["--provider or --mcp"])];
  return new UsageMistake(
    `missing: ${missing.join(" and ")}, as in: latchkey integrations create github --provider github --client-id ID --client-secret-file FILE`,
  );
}

function addUpdate(group: Command, act: Act): void {
  const update = withExpectedRevision(withSettings(group.command("update")))
    .summary("change an integration; settings that you leave out stay the same")
    .argument(...keyArgument);
  objectCommand(update, act, IntegrationSchema, async (session, key: string, given: IntegrationOptions) => {
    const { client, environment, terminal } = session;
    const { fields, paths } = await readSettings(given, terminal);
    if (paths.length === 0)
      throw new UsageMistake("nothing to change: give a setting, such as --client-id (see --help)");
    // The request must name the provider, and the mask only supports `channels` as a whole: read both first.
    const { integration: before } = await client(IntegrationService).getIntegration({ environment, key });
    const { automatic = before?.channels?.automatic ?? false, catchUpSyncs = before?.channels?.catchUpSyncs ?? [] } =
      fields.channels;
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
    return integration;
  });
}

function addDelete(group: Command, act: Act): void {
  withYes(withExpectedRevision(group.command("delete")))
    .summary("delete an integration; it must have no connections")
    .argument(...keyArgument)
    .action(
      act(async (session, key: string, { expectedRevision = 0n, yes }: RevisionOption & YesOption) => {
        const { client, output, environment } = session;
        await requireYes(session.terminal, `Delete the integration ${key}?`, yes);
        const answer = await client(IntegrationService).deleteIntegration({ environment, key, expectedRevision });
        await output.done(DeleteIntegrationResponseSchema, answer, `deleted integration ${key}`);
      }),
    );
}

/** Secrets are never arguments: any user who lists the machine's processes sees arguments. */
const withSettings = (command: Command): Command =>
  command
    .option("--display-name <name>", "name for people")
    .option("--client-id <id>", "client ID of the OAuth app")
    .addOption(
      new Option(
        "--client-secret-file <file>",
        "file with the client secret of the OAuth app; - reads stdin",
      ).conflicts("clientSecretEnv"),
    )
    .option("--client-secret-env <variable>", "environment variable with the client secret of the OAuth app")
    .option("--webhook-secret-file <file>", "file with the secret that the provider signs webhooks with")
    .option("--private-key-file <file>", "file with the PEM private key that signs assertions or tokens")
    .option(
      "--client-certificate-file <file>",
      "file with the PEM client certificate for TLS connections to the provider",
    )
    .option("--client-private-key-file <file>", "file with the PEM private key of that certificate")
    .option("--scope <scope>", "OAuth scope to request; repeatable, replaces all", listed)
    .option(
      "--further-scope <token=scopes>",
      "scopes of a further token, as user=chat:write,users:read; repeatable, replaces all",
      paired,
    )
    .addOption(
      new Option("--publishing <state>", "publishing state of the OAuth app").choices(Object.keys(publishings)),
    )
    .addOption(new Option("--callback <form>", "form of the redirect URI").choices(Object.keys(callbacks)))
    .addOption(
      new Option("--reflection <way>", "what to do if the provider echoes a credential").choices(
        Object.keys(reflections),
      ),
    )
    .addOption(
      new Option("--use-record <how>", "log each use of a connection, with the host or the path").choices(
        Object.keys(useRecords),
      ),
    )
    .option("--keep-set-cookie", "pass the provider's Set-Cookie headers on")
    .option("--no-keep-set-cookie", "drop the provider's Set-Cookie headers")
    .option("--keep-grants", "do not revoke grants at the provider when connections are deleted")
    .option("--no-keep-grants", "revoke the grants of deleted connections at the provider")
    .option("--credentials-in-scripts", "let scripts read the credentials of their connections")
    .option("--no-credentials-in-scripts", "hide credentials from scripts; requests still use them")
    .option(
      "--host <origin>",
      "further origin that credentials may be sent to, for Base-Url-Override; repeatable, replaces all",
      listed,
    )
    .option("--automatic-channels", "create and renew watch channels for every connection")
    .option("--no-automatic-channels", "leave watch channels to the application")
    .option("--catch-up-sync <name>", "sync to run when notifications were lost; repeatable, replaces all", listed)
    .option("--forward", "deliver webhooks to the application")
    .option("--no-forward", "do not deliver webhooks to the application: only syncs receive them")
    .option("--connection-default <key=value>", "default value in connection_config; repeatable, replaces all", paired)
    .option("--setting <name=value>", "value that the provider needs, empty to remove it; repeatable", paired)
    .option("--setting-file <name=file>", "file with such a value that is secret; repeatable", paired);

interface ReadSettings {
  readonly fields: IntegrationFields;
  /** The update mask for the fields. */
  readonly paths: string[];
}

type GivenFields = ReturnType<typeof fieldsOf>;
type IntegrationFields = GivenFields & {
  readonly secrets: GivenFields["secrets"] & { readonly settings: Record<string, string> };
};

async function readSettings(given: IntegrationOptions, terminal: Terminal): Promise<ReadSettings> {
  const { clientSecretFile, webhookSecretFile, privateKeyFile, clientCertificateFile, clientPrivateKeyFile } = given;
  const { setting, settingFile = {} } = given;
  const files = [
    ...[clientSecretFile, webhookSecretFile, privateKeyFile, clientCertificateFile, clientPrivateKeyFile],
    ...Object.values(settingFile),
  ];
  if (files.filter((file) => file === "-").length > 1) throw new UsageMistake("only one secret can be piped in");
  const read = (file: string | undefined) => (file === undefined ? undefined : readSecret(file, terminal));
  const secrets = {
    clientSecret: secretFromEnv(given.clientSecretEnv, terminal) ?? (await read(clientSecretFile)),
    webhookSecret: await read(webhookSecretFile),
    privateKey: await read(privateKeyFile),
    clientCertificate: await read(clientCertificateFile),
    clientPrivateKey: await read(clientPrivateKeyFile),
  };
  const secretSettings: Record<string, string> = {};
  for (const [name, file] of Object.entries(settingFile)) secretSettings[name] = await readSecret(file, terminal);
  const mask = {
    display_name: given.displayName,
    "oauth.client_id": given.clientId,
    "oauth.scopes": given.scope,
    "oauth.publishing": given.publishing,
    "oauth.further_scopes": given.furtherScope,
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
    settings: setting,
    "secrets.settings": given.settingFile,
    keep_grants: given.keepGrants,
  };
  const paths = Object.entries(mask).flatMap(([path, value]) => (value === undefined ? [] : [path]));
  const fields = fieldsOf(given, secrets);
  return { fields: { ...fields, secrets: { ...fields.secrets, settings: secretSettings } }, paths };
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
      furtherScopes: Object.fromEntries(
        Object.entries(given.furtherScope ?? {}).map(([name, text]) => [name, { scopes: scopesIn(text) }]),
      ),
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
    settings: { ...given.setting },
    keepGrants: given.keepGrants === true,
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
