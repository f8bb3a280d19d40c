import { command, curlTarget, quoted } from "./shell.ts";

/** The scripts of the developer's own folder. */
export interface ScriptsFolder {
  readonly folder: string;
  /** The arguments of `scripts run` for a script that needs no input. */
  readonly trial?: readonly string[];
}

export interface TourData {
  /** Address of the data listener. */
  readonly data: string;
  readonly sandbox: string;
  /** How the command line is called. */
  readonly latchkey: string;
  /** The sandbox's grant behind each connection, by integration. */
  readonly grants: Readonly<Record<string, string>>;
  /** The path of the calendar's webhooks on the data listener. */
  readonly webhookPath: string;
  readonly scripts?: ScriptsFolder | undefined;
  /** The API key and the user that the sandbox accepts. */
  readonly accepted: { readonly apiKey: string; readonly user: { readonly name: string; readonly password: string } };
}

/** One thing to try: a title, the commands to paste, and what their output shows. */
export interface TourStep {
  readonly title: string;
  readonly commands: readonly string[];
  readonly why: string;
  /** Error output of a command that already succeeded on an earlier tour. */
  readonly mayFailWith?: RegExp;
}

/** Returns the steps of `latchkey tour`. Each command works as pasted, in this order, with the secret key in `KEY`. */
export function tourSteps(data: TourData): readonly TourStep[] {
  const commands = createTourCommands(data);
  const calendarGrant = data.grants["calendar"];
  return [
    ...proxySteps(commands),
    ...connectionSteps(commands, data.accepted),
    ...(data.scripts === undefined ? [] : [scriptsStep(commands, data.scripts)]),
    ...(calendarGrant === undefined ? [] : [webhookStep(commands, data.webhookPath)]),
    ...failureSteps(commands, data.sandbox),
    ...(calendarGrant === undefined ? [] : [revocationStep(commands, { ...data, calendarGrant })]),
    {
      title: "Connections that Ada must authorize again, and what failed",
      commands: [
        commands.cli("connections list -e dev", "--state reauthorization_required"),
        commands.cli("logs -e dev --failed"),
      ],
      why: "A connection shows its state with the reason. Each log has an ID: `latchkey logs <id>` shows the details.",
    },
  ];
}

/** The commands that several steps need. */
interface TourCommands {
  /** Calls the data listener without a key. */
  curl(path: string, ...more: readonly string[]): string;
  /** Calls the data listener with the secret key. */
  withKey(path: string, ...more: readonly string[]): string;
  files(...more: readonly string[]): string;
  readonly calendar: string;
  readonly mail: string;
  /** Changes how the sandbox behaves. */
  behave(change: unknown): string;
  cli(...words: readonly string[]): string;
}

function createTourCommands({ data, sandbox, latchkey }: TourData): TourCommands {
  const key = '-H "Authorization: Bearer $KEY"';
  const connection = (integration: string) => `-H 'Provider-Config-Key: ${integration}' -H 'Connection-Id: ada'`;
  const curl = (path: string, ...more: readonly string[]) =>
    command("curl -sw '\\n'", ...curlTarget(data, path), ...more);
  const withKey = (path: string, ...more: readonly string[]) => curl(path, key, ...more);
  return {
    curl,
    withKey,
    files: (...more) => withKey("/proxy/drive/v3/files?pageSize=3", connection("files"), ...more),
    calendar: withKey("/proxy/v3/calendars/primary/events?maxResults=2", connection("calendar")),
    mail: withKey("/proxy/gmail/v1/users/me/messages?maxResults=3", connection("unified")),
    behave: (change) =>
      command(`curl -s -o /dev/null -X PUT ${sandbox}/_sandbox/behaviour`, `-d ${quoted(JSON.stringify(change))}`),
    cli: (...words) => command(latchkey, ...words),
  };
}

const proxySteps = ({ files, calendar, mail }: TourCommands): readonly TourStep[] => [
  {
    title: "Get Ada's files through the proxy",
    commands: [files()],
    why: "You sent your own key and named a connection. Latchkey added Ada's access token; this is the provider's response, unchanged.",
  },
  {
    title: "Get Ada's primary calendar",
    commands: [calendar],
    why: "The same call with another integration: the path after /proxy is the provider's own.",
  },
  {
    title: "Get Ada's messages, through a connection to all of her data",
    commands: [mail],
    why: "One connection may reach several APIs of a provider, if its scopes allow that.",
  },
];

const connectionSteps = (
  { withKey, cli }: TourCommands,
  { apiKey, user }: TourData["accepted"],
): readonly TourStep[] => [
  {
    title: "Connect another user",
    commands: [
      withKey(
        "/connect/sessions",
        "-H 'Content-Type: application/json'",
        `-d ${quoted(JSON.stringify({ end_user: { id: "bob" }, allowed_integrations: ["files"] }))}`,
      ),
    ],
    why: "Open the connect_link in a browser: it is the page that your users see. `latchkey connect files --end-user bob` prints such a link too.",
  },
  {
    title: "List all connections and their state",
    commands: [cli("connections list -e dev")],
    why: "An active connection needs nothing: Latchkey refreshes its token in time.",
  },
  {
    title: "Add providers that take an API key or a password",
    commands: ["sandbox-api-key", "sandbox-basic"].map((name) =>
      cli(`integrations create ${name}`, `--provider ${name} -e dev`),
    ),
    mayFailWith: /already_exists/,
    why: `The connect page now offers both. They accept the API key ${apiKey}, and the user ${user.name} with the password ${user.password}.`,
  },
];

const scriptsStep = ({ cli }: TourCommands, { folder, trial }: ScriptsFolder): TourStep => ({
  title: `List your scripts, in ${folder}${trial === undefined ? "" : ", and try one"}`,
  commands: [cli("scripts list"), ...(trial === undefined ? [] : [cli("scripts run", ...trial, "--dry-run -e dev")])],
  why: "A dry run calls the provider, and saves nothing.",
});

const webhookStep = ({ curl, cli }: TourCommands, webhookPath: string): TourStep => ({
  title: "Send a webhook: Ada's calendar has changed",
  commands: [
    curl(
      webhookPath,
      "-X POST -H 'x-cal-channel-id: hers'",
      // A number is accepted once, so each paste sends another.
      '-H "x-cal-message-number: $(date +%s)"',
      "-H 'x-cal-resource-uri: https://cal/v3/calendars/ada%40example.com/events'",
    ),
    cli("webhooks list -e dev"),
    cli("webhooks forwards -e dev"),
  ],
  why: "Latchkey matched the webhook to Ada's connection. The delivery says no_destination: set LATCHKEY_FORWARD_URL to receive webhooks in your service.",
});

const failureSteps = ({ withKey, files, behave }: TourCommands, sandbox: string): readonly TourStep[] => [
  {
    title: "Let a token expire: get one that lasts five seconds",
    commands: [
      behave({ accessTokenLifetimeS: 5 }),
      withKey("/connections/ada", "-G -d provider_config_key=files -d force_refresh=true"),
      behave({ accessTokenLifetimeS: 3_600 }),
    ],
    why: "See expires_at. The sandbox issues long tokens again from now on.",
  },
  {
    title: "Call again, six seconds later",
    commands: ["  sleep 6", files(), `  curl -s ${sandbox}/_sandbox/seen | grep -o '"tallies":{[^}]*}'`],
    why: "The call works: Latchkey refreshed the token first. The sandbox counts the refreshes.",
  },
  {
    title: "Break the provider: its next two responses are 503",
    commands: [
      behave({ answers: { files: [{ kind: "raw", status: 503, text: "", times: 2 }] } }),
      files("-H 'Retries: 3'"),
    ],
    why: "The header Retries asked Latchkey to try again. Your service saw one good response.",
  },
];

const revocationStep = (
  { calendar }: TourCommands,
  { sandbox, calendarGrant }: { readonly sandbox: string; readonly calendarGrant: string },
): TourStep => ({
  title: "Revoke Ada's calendar, as she can at her provider",
  commands: [
    command(`curl -sw '\\n' ${sandbox}/_sandbox/revoke`, `-d ${quoted(JSON.stringify({ grant: calendarGrant }))}`),
    calendar,
  ],
  why: "The provider refused the token. Latchkey tried a refresh, learned that the grant is gone, and marked the connection.",
});
