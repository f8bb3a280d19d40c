import { command, curlTarget, flagPairs, quoted } from "./shell.ts";

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
  readonly secretKey: string;
  /** How the command line is called, and the flags with which it finds this latchkey. */
  readonly latchkey: string;
  readonly flags: readonly string[];
  /** The sandbox's grant behind each connection, by integration. */
  readonly grants: ReadonlyMap<string, string>;
  /** The path of the calendar's webhooks on the data listener. */
  readonly webhookPath: string;
  readonly scripts?: ScriptsFolder | undefined;
}

/** One thing to try: a title, and the commands to paste. */
export interface TourStep {
  readonly title: string;
  readonly commands: readonly string[];
}

/** Returns the steps that `latchkey dev` prints. Each command works as pasted, in this order. */
export function tourSteps(data: TourData): readonly TourStep[] {
  const commands = createTourCommands(data);
  const calendarGrant = data.grants.get("calendar");
  return [
    ...proxySteps(commands),
    ...connectionSteps(commands),
    ...(data.scripts === undefined ? [] : [scriptsStep(commands, data.scripts)]),
    ...(calendarGrant === undefined ? [] : [webhookStep(commands, data.webhookPath)]),
    ...failureSteps(commands, data.sandbox),
    ...(calendarGrant === undefined ? [] : [revocationStep(commands, { ...data, calendarGrant })]),
    {
      title: "Connections that Ada must authorize again, and what failed and why",
      commands: [
        commands.cli("connections list -e dev", "--state reauthorization_required"),
        commands.cli("logs -e dev --failed"),
      ],
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

function createTourCommands({ data, sandbox, secretKey, latchkey, flags }: TourData): TourCommands {
  const key = `-H ${quoted(`Authorization: Bearer ${secretKey}`)}`;
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
    cli: (...words) => command(latchkey, ...words, ...flagPairs(flags)),
  };
}

const proxySteps = ({ files, calendar, mail }: TourCommands): readonly TourStep[] => [
  { title: "Ada's files: the provider's own response, requested with your key", commands: [files()] },
  { title: "Ada's primary calendar", commands: [calendar] },
  { title: "Ada's messages, through a connection to all of her data", commands: [mail] },
];

const connectionSteps = ({ withKey, cli }: TourCommands): readonly TourStep[] => [
  {
    title: "Connect another user: open the connect_link in a browser",
    commands: [
      withKey(
        "/connect/sessions",
        "-H 'Content-Type: application/json'",
        `-d ${quoted(JSON.stringify({ end_user: { id: "bob" }, allowed_integrations: ["files"] }))}`,
      ),
    ],
  },
  { title: "All connections and their state", commands: [cli("connections list -e dev")] },
];

const scriptsStep = ({ cli }: TourCommands, { folder, trial }: ScriptsFolder): TourStep => ({
  title: `Your scripts, in ${folder}${trial === undefined ? "" : "; a dry run of one shows what it would do"}`,
  commands: [cli("scripts list"), ...(trial === undefined ? [] : [cli("scripts run", ...trial, "--dry-run -e dev")])],
});

const webhookStep = ({ curl, cli }: TourCommands, webhookPath: string): TourStep => ({
  title: "A webhook reports a change of Ada's calendar (`webhooks tail` shows it live)",
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
});

const failureSteps = ({ withKey, files, behave }: TourCommands, sandbox: string): readonly TourStep[] => [
  {
    title: "Let a token expire: get one that lasts five seconds",
    commands: [
      behave({ accessTokenLifetimeS: 5 }),
      withKey("/connections/ada", "-G -d provider_config_key=files -d force_refresh=true"),
      behave({ accessTokenLifetimeS: 3_600 }),
    ],
  },
  {
    title: "Six seconds later the call still works; the provider counts one more refresh",
    commands: ["  sleep 6", files(), `  curl -s ${sandbox}/_sandbox/seen | cut -c -300`],
  },
  {
    title: "Break the provider: it fails twice, and retries hide it from your service",
    commands: [
      behave({ answers: { files: [{ kind: "raw", status: 503, text: "", times: 2 }] } }),
      files("-H 'Retries: 3'"),
    ],
  },
];

const revocationStep = (
  { calendar }: TourCommands,
  { sandbox, calendarGrant }: { readonly sandbox: string; readonly calendarGrant: string },
): TourStep => ({
  title: "Ada revokes her calendar: the call fails, and latchkey finds out why",
  commands: [
    command(`curl -sw '\\n' ${sandbox}/_sandbox/revoke`, `-d ${quoted(JSON.stringify({ grant: calendarGrant }))}`),
    calendar,
  ],
});
