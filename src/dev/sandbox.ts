import { stringify } from "yaml";
import { parseListenAddress } from "../base/http/listener.ts";
import type { Process } from "../cli/process/process.ts";
import { exitCodes } from "../cli/terminal/exit-codes.ts";
import { UsageMistake } from "../cli/terminal/usage-mistake.ts";
import { readyApiKey, readyUser } from "./sandbox/auth/access.ts";
import { readyClient } from "./sandbox/auth/clients.ts";
import { people } from "./sandbox/people.ts";
import { allowPrivateFor, describeProviders } from "./sandbox/providers.ts";
import { type Sandbox, startSandbox } from "./sandbox/sandbox.ts";

const defaultListen = "127.0.0.1:3010";

/** Runs the stand-in for providers until a signal stops it. */
export async function sandbox(process: Process, options: Readonly<Record<string, string | true>>): Promise<number> {
  const listen = parseListenAddress(String(options["listen"] ?? defaultListen));
  if (listen?.kind !== "tcp") throw new UsageMistake("--listen must be host:port, or :0 for any port");
  const origin = originOf(options["origin"]);
  const ended = new Promise<void>((resolve) => {
    process.onSignal((signal) => {
      if (signal !== "SIGHUP") resolve();
    });
  });
  let running: Sandbox;
  try {
    running = await startSandbox({
      listen,
      ...(origin === undefined ? {} : { origin }),
      onError: (error) => void process.stderr.write(`latchkey: ${error instanceof Error ? error.stack : error}\n`),
    });
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    process.stderr.write(`latchkey: the sandbox cannot start: ${reason}\n`);
    return exitCodes.failed;
  }
  process.stdout.write(options["json"] === true ? `${JSON.stringify(described(running))}\n` : pageOf(running));
  await ended;
  await running.close();
  return exitCodes.ok;
}

function originOf(text: string | true | undefined): string | undefined {
  if (text === undefined) return undefined;
  const url = URL.canParse(String(text)) ? new URL(String(text)) : undefined;
  if (url === undefined || !/^https?:$/.test(url.protocol) || url.href !== `${url.origin}/`) {
    throw new UsageMistake("--origin must be http://host[:port] or https://host[:port]");
  }
  return url.origin;
}

/** The output of `--json`: addresses, credentials and tokens for scripts. */
function described({ origin, grant }: Sandbox) {
  return {
    origin,
    client: { id: readyClient.id, secret: readyClient.secret },
    api_key: readyApiKey,
    basic: readyUser,
    users: people.map(({ email }) => email),
    tokens: grant(),
    allow_private: allowPrivateFor(origin),
    providers: describeProviders(origin),
  };
}

function pageOf({ origin, grant }: Sandbox): string {
  const { access_token: token, refresh_token: refreshToken } = grant();
  const bearer = `-H 'Authorization: Bearer ${token}'`;
  return `
The sandbox is at ${origin}: a provider to develop against.
Its page, with the requests it received: ${origin}/_sandbox

  App       ${readyClient.id}, secret ${readyClient.secret}; it may redirect to any address of this machine
  Users     ${people.map(({ email }) => email).join(", ")}
  API key   ${readyApiKey} (x-api-key)        Basic   ${readyUser.name}, ${readyUser.password}
            The sandbox answers 401 to any other key, user or password.

Paste any of these commands into a second terminal:

  # Ada's files, with a token that was issued for you
  curl -s '${origin}/drive/v3/files?pageSize=10' ${bearer}

  # Ada's calendar
  curl -s '${origin}/v3/calendars/primary/events' ${bearer}

  # A new token; the old refresh token stops working
  curl -s ${origin}/oauth2/token -u ${readyClient.id}:${readyClient.secret} -d grant_type=refresh_token -d refresh_token=${refreshToken}

  # The next two refreshes fail as if a user had revoked access
  curl -s -X PUT ${origin}/_sandbox/behaviour \\
    -d '{"answers":{"token":[{"kind":"error","error":"invalid_grant","times":2}]}}'

  # Get tokens of another user, revoke all of Ada's grants, show what the sandbox saw
  curl -s ${origin}/_sandbox/grant -d '{"user":"bob@example.com"}'
  curl -s ${origin}/_sandbox/revoke -d '{"user":"ada@example.com"}'
  curl -s ${origin}/_sandbox/seen

  # Ten changes of Ada's calendar whose notifications are dropped, then one that is notified
  curl -s -X PUT ${origin}/_sandbox/behaviour -d '{"notifications":"dropped"}'
  curl -s ${origin}/_sandbox/calendar -d '{"user":"ada@example.com","changes":10}'
  curl -s -X PUT ${origin}/_sandbox/behaviour -d '{"notifications":"sent"}'
  curl -s ${origin}/_sandbox/calendar -d '{"user":"ada@example.com"}'

To use the sandbox from Latchkey, start it with LATCHKEY_ALLOW_PRIVATE=${allowPrivateFor(origin)} and this in the file that LATCHKEY_CONFIG names:

${stringify({ providers: describeProviders(origin) }, { lineWidth: 0, aliasDuplicateObjects: false })}
Stop with Ctrl-C.
`;
}
