import type { Command } from "commander";
import { version } from "../../../base/version.ts";
import { EnvironmentService, GetCallerResponseSchema } from "../../../gen/latchkey/v1/environment_pb.ts";
import type { Act } from "../../session.ts";
import { escapeControl } from "../../terminal/escape-control.ts";
import { scopeName } from "../scope-names.ts";

/** Adds `whoami` and `version`. */
export function addWhoAmI(program: Command, act: Act): void {
  program
    .command("whoami")
    .summary("show the key or the identity in use, its environment and its scopes")
    .action(
      act(async ({ client, output, address }) => {
        const answer = await client(EnvironmentService).getCaller({});
        if (output.json) return output.one(GetCallerResponseSchema, answer);
        const { keyId, environment, scopes, identity } = answer;
        const lines = [
          [identity === undefined ? "key" : "identity", keyId],
          ["environment", environment === "" ? "all" : environment],
          ["scopes", scopes.map(scopeName).join(", ")],
          ["server", `${answer.version} at ${address}`],
        ].map(([title = "", text = ""]) => `${title.padEnd(13)}${text}`);
        return output.line(lines.map(escapeControl).join("\n"));
      }),
    );

  program
    .command("version")
    .summary("show the versions of this command and of the server")
    .action(
      act(async ({ client, output, address }) => {
        let server: string | undefined;
        try {
          ({ version: server } = await client(EnvironmentService).getCaller({}));
        } catch {
          /* No server, or no key for it: the version of this command is known. */
        }
        if (output.json) return output.document({ client: version, server: server ?? null });
        return output.line(`client  ${version}\nserver  ${server ?? `unknown: no answer from ${address}`}`);
      }),
    );
}
