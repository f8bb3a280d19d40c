import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { type Command, Option } from "commander";
import type { Scope } from "../../gen/latchkey/v1/access_pb.ts";
import {
  CreateKeyResponseSchema,
  EnvironmentService,
  KeySchema,
  RevokeKeyResponseSchema,
} from "../../gen/latchkey/v1/environment_pb.ts";
import type { Act } from "../session.ts";
import { moment } from "../terminal/moment.ts";
import { durationMs, instant, revision } from "../terminal/option-values.ts";
import { pagesOf } from "../terminal/paging.ts";
import { scopeName, scopes } from "./scope-names.ts";

interface KeyCreateOptions {
  readonly scope?: readonly Scope[];
  readonly expiresIn?: number;
  readonly expiresAt?: number;
}

/** Adds the `keys` commands, for the keys of callers. */
export function addKeys(program: Command, act: Act): void {
  const group = program.command("keys").summary("who may call, and what they may do");

  group
    .command("list")
    .summary("the keys of --environment; without it all keys, control keys too")
    .action(
      act(async ({ client, output, environment }) => {
        const fetch = async (page: { readonly pageSize: number; readonly pageToken: string }) => {
          const { keys, nextPageToken } = await client(EnvironmentService).listKeys({ environment, ...page });
          return { items: keys, nextPageToken };
        };
        await output.many({
          schema: KeySchema,
          none: "no keys",
          pages: pagesOf({ fetch, maxPageSize: 1_000 }),
          columns: [
            { title: "ID", text: ({ id }) => id },
            { title: "ENVIRONMENT", text: ({ environment: of }) => of },
            { title: "SCOPES", text: (key) => key.scopes.map(scopeName).join(",") },
            { title: "EXPIRES", text: ({ expiresAt }) => moment(expiresAt) },
            { title: "LAST USED", text: ({ lastUsedAt }) => moment(lastUsedAt) },
            { title: "DECLARED", text: ({ declared }) => (declared ? "yes" : "") },
          ],
        });
      }),
    );

  group
    .command("create")
    .argument("[id]", "its name, which stands in logs and audit; default: one is made")
    .addOption(
      new Option("--scope <scopes>", "what it may do; repeatable, or with commas; default: all but admin").argParser(
        scopes,
      ),
    )
    .addOption(
      new Option("--expires-in <duration>", "such as 30d; default: for good")
        .argParser(durationMs)
        .conflicts("expiresAt"),
    )
    .addOption(new Option("--expires-at <time>", "such as 2030-01-01T00:00:00Z").argParser(instant))
    .summary("make a key for --environment, and show its secret this once")
    .addHelpText("after", '\nA control key opens all environments: --environment "" --scope admin')
    .action(
      act(
        async (
          { client, output, environment },
          id: string | undefined,
          { scope = [], expiresIn, expiresAt }: KeyCreateOptions,
        ) => {
          const ends = expiresIn === undefined ? expiresAt : Date.now() + expiresIn;
          const answer = await client(EnvironmentService).createKey({
            environment,
            id: id ?? "",
            scopes: [...scope],
            ...(ends === undefined ? {} : { expiresAt: timestampFromMs(ends) }),
          });
          await output.one(CreateKeyResponseSchema, answer);
          if (!output.json) await output.note("The secret is shown this once: only a hash of it is kept.");
        },
      ),
    );

  group
    .command("revoke")
    .argument("<id>")
    .option("--expected-revision <revision>", "refuse when it has changed since", revision)
    .summary("end a key, within a second and on every replica")
    .action(
      act(async ({ client, output }, id: string, { expectedRevision = 0n }: { readonly expectedRevision?: bigint }) => {
        const answer = await client(EnvironmentService).revokeKey({ id, expectedRevision });
        await output.done(RevokeKeyResponseSchema, answer, `revoked key ${id}`);
      }),
    );
}
