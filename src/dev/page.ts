/** The customer's own code, where there is a folder of it. */
export interface Scripts {
  readonly folder: string;
  /** The words behind `scripts run`, of one that can be tried. */
  readonly trial?: readonly string[];
}

interface DevPageData {
  /** Addresses of the doors. */
  readonly data: string;
  readonly control: string;
  readonly ops: string;
  readonly sandbox: string;
  /** What the sandbox accepts where a person types credentials in. */
  readonly accepted: { readonly apiKey: string; readonly user: { readonly name: string; readonly password: string } };
  readonly secretKey: string;
  /** Where the store is. */
  readonly place: string;
  /** How the command line is called, and what it must be told to find this latchkey. */
  readonly latchkey: string;
  readonly flags: readonly string[];
  /** By integration, what the sandbox calls the grant behind the connection. */
  readonly grants: ReadonlyMap<string, string>;
  /** Connections that somebody else has put in the place of ours. */
  readonly left: readonly string[];
  /** Where the calendar's webhooks are to be sent, on the data door. */
  readonly webhookPath: string;
  readonly scripts?: Scripts | undefined;
}

/** One thing to try: what it shows, and what to paste. */
interface TourStep {
  readonly shows: string;
  readonly commands: readonly string[];
}

/** Of a terminal that nobody has made larger, less the column in which its cursor stands. */
const width = 79;

/** What `latchkey dev` says once it runs. Every command works as it is pasted, one after the other. */
export function devPage(furnished: DevPageData): string {
  const { data, control, ops, sandbox, accepted, place, left, latchkey, flags } = furnished;
  const doors = [
    ["data", data, "what your service calls"],
    ["control", control, "what the command line calls"],
    ["ops", ops, "probes and metrics"],
    ["sandbox", `${sandbox}/_sandbox`, "a page: what it has and saw"],
  ] as const;
  const widest = Math.max(...doors.map(([, address]) => address.length));
  const lines = doors.map(([name, address, what]) => `  ${name.padEnd(9)}${address.padEnd(widest)}   ${what}`);
  const own =
    left.length === 0 ? "" : `\nOf your own, and left alone, whatever the lines below say of it: ${left.join(", ")}.\n`;
  const forms = ["sandbox-api-key", "sandbox-basic"]
    .map((name) => command(latchkey, "integrations create", name, `--provider ${name}`, "-e dev", ...pairs(flags)))
    .join("\n");
  const steps = stepsOf(furnished).map(({ shows, commands }) => `${[`  # ${shows}`, ...commands].join("\n")}\n`);
  return `
latchkey is ready, and beside it a sandbox: a provider to try it with.

${lines.join("\n")}

The sandbox also has providers for keys and passwords. The connect page offers
them once they have an integration, which these two commands make:

${forms}

They take the API key ${accepted.apiKey}, and the user ${accepted.user.name} with the
password ${accepted.user.password}; the sandbox refuses all others.

Ada has let you into her files, her calendar and her mail. Her tokens lie here,
and none of them is in what you paste into another terminal, in this folder:
${own}
${steps.join("\n")}
Keys and store are in ${place}. At the next start Ada's connections are new.
Stop with Ctrl-C.

`;
}

function stepsOf({
  data,
  sandbox,
  secretKey,
  latchkey,
  flags,
  grants,
  webhookPath,
  scripts,
}: DevPageData): readonly TourStep[] {
  const key = `-H ${quoted(`Authorization: Bearer ${secretKey}`)}`;
  const by = (integration: string) => `-H 'Provider-Config-Key: ${integration}' -H 'Connection-Id: ada'`;
  const get = (path: string, ...more: readonly string[]) =>
    command("curl -sw '\\n'", ...addressed(data, path), key, ...more);
  const files = (...more: readonly string[]) => get("/proxy/drive/v3/files?pageSize=3", by("files"), ...more);
  const calendar = get("/proxy/v3/calendars/primary/events?maxResults=2", by("calendar"));
  const behave = (change: unknown) =>
    command(`curl -s -o /dev/null -X PUT ${sandbox}/_sandbox/behaviour`, `-d ${quoted(JSON.stringify(change))}`);
  const cli = (...words: readonly string[]) => command(latchkey, ...words, ...pairs(flags));
  const grant = grants.get("calendar");
  const notified = command(
    "curl -sw '\\n'",
    ...addressed(data, webhookPath),
    "-X POST -H 'x-cal-channel-id: hers'",
    // Another message each time.
    '-H "x-cal-message-number: $(date +%s)"',
    "-H 'x-cal-resource-uri: https://cal/v3/calendars/ada%40example.com/events'",
  );

  return [
    { shows: "Her files: the provider's own answer, asked for with your key", commands: [files()] },
    { shows: "Her primary calendar", commands: [calendar] },
    {
      shows: "Her messages, by a connection that reaches all she has",
      commands: [get("/proxy/gmail/v1/users/me/messages?maxResults=3", by("unified"))],
    },
    {
      shows: "Let somebody else in: open the connect_link in a browser",
      commands: [
        command(
          "curl -sw '\\n'",
          ...addressed(data, "/connect/sessions"),
          key,
          "-H 'Content-Type: application/json'",
          `-d ${quoted(JSON.stringify({ end_user: { id: "bob" }, allowed_integrations: ["files"] }))}`,
        ),
      ],
    },
    { shows: "All connections, and how they are", commands: [cli("connections list -e dev")] },
    ...(scripts === undefined
      ? []
      : [
          {
            shows: `Your scripts, in ${scripts.folder}${scripts.trial === undefined ? "" : "; and what one of them would do"}`,
            commands: [
              cli("scripts list"),
              ...(scripts.trial === undefined ? [] : [cli("scripts run", ...scripts.trial, "--dry-run -e dev")]),
            ],
          },
        ]),
    ...(grant === undefined
      ? []
      : [
          {
            shows: "Her calendar tells of a change (`webhooks tail` shows it as it happens)",
            commands: [notified, cli("webhooks list -e dev"), cli("webhooks forwards -e dev")],
          },
        ]),
    {
      shows: "Watch a token run out: get one that lasts five seconds",
      commands: [
        behave({ accessTokenLifetimeS: 5 }),
        get("/connections/ada", "-G -d provider_config_key=files -d force_refresh=true"),
        behave({ accessTokenLifetimeS: 3_600 }),
      ],
    },
    {
      shows: "Six seconds later the call is as good; the provider counts one refresh more",
      commands: ["  sleep 6", files(), `  curl -s ${sandbox}/_sandbox/seen | cut -c -300`],
    },
    {
      shows: "Break the provider: it fails twice, and who asks for retries never knows",
      commands: [
        behave({ answers: { files: [{ kind: "raw", status: 503, text: "", times: 2 }] } }),
        files("-H 'Retries: 3'"),
      ],
    },
    ...(grant === undefined
      ? []
      : [
          {
            shows: "Ada takes her calendar back: refused, and latchkey finds out why",
            commands: [
              command(`curl -sw '\\n' ${sandbox}/_sandbox/revoke`, `-d ${quoted(JSON.stringify({ grant }))}`),
              calendar,
            ],
          },
        ]),
    {
      shows: "Which connections need their user, and what failed, and why",
      commands: [cli("connections list -e dev", "--state reauthorization_required"), cli("logs -e dev --failed")],
    },
  ];
}

/** In lines that fit, each but the last with a backslash at its end. Parts are never broken. */
function command(...parts: readonly string[]): string {
  const lines: string[] = [];
  let line = "  ";
  for (const part of parts) {
    if (line === "  ") line += part;
    else if (line.length + 1 + part.length + " \\".length <= width) line += ` ${part}`;
    else {
      lines.push(`${line} \\`);
      line = `    ${part}`;
    }
  }
  return [...lines, line].join("\n");
}

const pairs = (flags: readonly string[]): string[] =>
  flags.flatMap((flag, i) => (i % 2 === 0 ? [`${flag} ${quoted(flags[i + 1] ?? "")}`] : []));

/** A door on a Unix socket has no address that fits into a URL. */
const addressed = (address: string, path: string): readonly string[] =>
  address.startsWith("unix:")
    ? [`--unix-socket ${quoted(address.slice("unix:".length))}`, `'http://localhost${path}'`]
    : [`'${address}${path}'`];

/** For a POSIX shell, where only it needs it. */
const quoted = (text: string): string =>
  /^[A-Za-z0-9_./:@%+,=-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
