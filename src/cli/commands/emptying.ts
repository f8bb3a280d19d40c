import { setTimeout as sleep } from "node:timers/promises";
import type { Command } from "commander";
import {
  type Emptying,
  Emptying_State,
  EmptyingSchema,
  EnvironmentService,
} from "../../gen/latchkey/v1/environment_pb.ts";
import type { Act, CommandSession } from "../session.ts";
import { requireYes, withYes, type YesOption } from "../terminal/confirm.ts";
import { exitCodes } from "../terminal/exit-codes.ts";
import { formatCount } from "../terminal/format.ts";

interface EmptyOptions extends YesOption {
  readonly keepGrant?: boolean;
  readonly wait: boolean;
}

const lookEveryMs = 1_000;

/** Adds the commands that empty an environment and show how far that is. */
export function addEmpty(group: Command, act: Act): void {
  withYes(group.command("empty"))
    .summary("delete all connections of an environment; integrations, keys and settings stay")
    .argument("<name>", "name of the environment")
    .option("--keep-grant", "do not revoke the grants at the providers")
    .option("--no-keep-grant", "revoke the grants, even where the integration keeps them")
    .option("--no-wait", "do not wait for the end")
    .action(
      act(async (session, name: string, { keepGrant, wait, yes }: EmptyOptions) => {
        const { client, output, terminal } = session;
        await requireYes(terminal, `Delete all connections of the environment ${name}?`, yes);
        const request = { name, ...(keepGrant === undefined ? {} : { keepGrant }) };
        const { emptying: begun } = await client(EnvironmentService).emptyEnvironment(request);
        const emptying = wait ? await ended(session, { name, begun }) : begun;
        if (emptying === undefined) return exitCodes.failed;
        await output.done(EmptyingSchema, emptying, emptyingText(emptying));
        return exitCodes.ok;
      }),
    );
  group
    .command("emptying")
    .summary("show how far the last emptying of an environment is")
    .argument("[name]", "name of the environment (default: --environment, or the key's own)")
    .action(
      act(async ({ client, output, environment }, name: string | undefined) => {
        const { emptying } = await client(EnvironmentService).getEmptying({ name: name ?? environment });
        if (emptying !== undefined) await output.one(EmptyingSchema, emptying);
      }),
    );
}

/** Says how far it is, until it has ended. An interrupt ends the waiting and not the work. */
async function ended(
  { client, output, terminal: { signal } }: CommandSession,
  { name, begun }: { readonly name: string; readonly begun: Emptying | undefined },
): Promise<Emptying | undefined> {
  let emptying = begun;
  while (emptying?.state === Emptying_State.RUNNING && !signal.aborted) {
    await output.note(emptyingText(emptying));
    await sleep(lookEveryMs, undefined, { signal }).catch(() => {});
    ({ emptying } = await client(EnvironmentService).getEmptying({ name }));
  }
  return emptying;
}

function emptyingText({ state, environment, connections, connectSessions, revocations }: Emptying): string {
  const counts = `${formatCount(Number(connections), "connection")}, ${formatCount(Number(connectSessions), "connect session")}`;
  const grants = formatCount(Number(revocations), "revocation");
  return state === Emptying_State.DONE
    ? `emptied ${environment}: deleted ${counts}; ${grants} to carry out`
    : `deleted ${counts} of ${environment} so far, and continues; ${grants} to carry out`;
}
