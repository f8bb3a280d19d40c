import type { Command } from "commander";
import { IdentityService, type TestTokenResponse, TestTokenResponseSchema } from "../../gen/latchkey/v1/identity_pb.ts";
import type { Act } from "../session.ts";
import { escapeControl } from "../terminal/escape-control.ts";
import { exitCodes } from "../terminal/exit-codes.ts";
import { formatTime } from "../terminal/format.ts";
import { readSecret } from "../terminal/input.ts";
import { scopeName } from "./scope-names.ts";

/** Adds the `identities` commands, for callers that prove who they are instead of sending a key. */
export function addIdentities(program: Command, act: Act): void {
  const group = program.command("identities").summary("explain the identities of callers without a key");
  group
    .command("test")
    .summary("verify a token and show which rule it meets; exit code 1 if it meets none")
    .argument("<file>", "file with the token (JWT); - reads stdin")
    .action(
      act(async ({ client, output, terminal }, file: string) => {
        const token = await readSecret(file, terminal);
        const answer = await client(IdentityService).testToken({ token });
        if (output.json) await output.one(TestTokenResponseSchema, answer);
        else await output.line(linesOf(answer).map(escapeControl).join("\n"));
        return answer.mistake === "" ? exitCodes.ok : exitCodes.failed;
      }),
    );
}

function linesOf({ mistake, identity, endsAt, rule, environment, scopes, limits }: TestTokenResponse): string[] {
  const rows: (readonly [string, string | undefined])[] = [
    ["refused", mistake === "" ? undefined : mistake],
    ["identity", identity && `${identity.kind} ${identity.name}`],
    ["ends", endsAt && formatTime(endsAt)],
    ["rule", rule === undefined ? undefined : `identities.rules.${rule}`],
    ["environment", rule === undefined ? undefined : environment || "all"],
    ["scopes", rule === undefined ? undefined : scopes.map(scopeName).join(", ")],
    ["limits", limits && "yes"],
  ];
  return rows.flatMap(([title, text]) => (text === undefined ? [] : [`${title.padEnd(13)}${text}`]));
}
