import { durationFromMs, timestampFromMs } from "@bufbuild/protobuf/wkt";
import { type Command, Option } from "commander";
import {
  EnvironmentService,
  KeySchema,
  RevokeKeyResponseSchema,
  RotateKeyResponseSchema,
} from "../../gen/latchkey/v1/environment_pb.ts";
import type { Act } from "../session.ts";
import { requireYes, withYes, type YesOption } from "../terminal/confirm.ts";
import { durationMs } from "../terminal/option-values.ts";
import { listCommand, type RevisionOption, withExpectedRevision } from "./command-kinds.ts";
import { addKeyCreate } from "./key-create.ts";
import { scopeName } from "./scope-names.ts";

/** Adds the `keys` commands, for the keys of callers. */
export function addKeys(program: Command, act: Act): void {
  const group = program.command("keys").summary("manage API keys");
  const list = group.command("list").summary("list the keys of --environment; without it, all keys");
  listCommand(list, act, {
    schema: KeySchema,
    none: "no keys",
    rpc: ({ client, environment }, page) => client(EnvironmentService).listKeys({ environment, ...page }),
    items: ({ keys }) => keys,
    columns: [
      { title: "ID", text: ({ id }) => id },
      { title: "ENVIRONMENT", text: ({ environment }) => environment },
      { title: "SCOPES", text: (key) => key.scopes.map(scopeName).join(",") },
      { title: "EXPIRES", time: ({ expiresAt }) => expiresAt },
      { title: "LAST USED", time: ({ lastUsedAt }) => lastUsedAt },
      { title: "CREATED BY", text: ({ createdBy }) => createdBy },
      { title: "DECLARED", text: ({ declared }) => (declared ? "yes" : "") },
    ],
  });

  addKeyCreate(group, act);

  group
    .command("rotate")
    .argument("<id>", "name of the key to replace")
    .argument("[new-id]", "name of the new key (default: the old name with the next number)")
    .option("--overlap <duration>", "how long the old key also works, at most 30d (default: 24h)", durationMs)
    .addOption(
      new Option("--expires-in <duration>", "lifetime of the new key, for example 90d (default: no expiry)").argParser(
        durationMs,
      ),
    )
    .summary("create a successor of a key, and end the old one after an overlap")
    .action(
      act(
        async (
          { client, output },
          id: string,
          newId: string | undefined,
          { overlap, expiresIn }: { readonly overlap?: number; readonly expiresIn?: number },
        ) => {
          const answer = await client(EnvironmentService).rotateKey({
            id,
            newId: newId ?? "",
            ...(overlap !== undefined && { overlap: durationFromMs(overlap) }),
            ...(expiresIn !== undefined && { expiresAt: timestampFromMs(Date.now() + expiresIn) }),
          });
          await output.one(RotateKeyResponseSchema, answer);
          if (!output.json) await output.note("Save the secret now: it is not shown again.");
        },
      ),
    );

  withYes(withExpectedRevision(group.command("revoke")))
    .summary("revoke a key; takes effect within a second on every replica")
    .argument("<id>", "name of the key")
    .action(
      act(async (session, id: string, { expectedRevision = 0n, yes }: RevisionOption & YesOption) => {
        const { client, output } = session;
        await requireYes(session.terminal, `Revoke the key ${id}? Callers that use it are refused at once.`, yes);
        const answer = await client(EnvironmentService).revokeKey({ id, expectedRevision });
        await output.done(RevokeKeyResponseSchema, answer, `revoked key ${id}`);
      }),
    );
}
