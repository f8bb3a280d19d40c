import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { type Command, Option } from "commander";
import type { Scope } from "../../gen/latchkey/v1/access_pb.ts";
import { CreateKeyResponseSchema, EnvironmentService } from "../../gen/latchkey/v1/environment_pb.ts";
import type { Act } from "../session.ts";
import { type LimitOptions, limitOptions, limitsIn } from "../terminal/limit-options.ts";
import { durationMs, instant } from "../terminal/option-values.ts";
import { scopes } from "./scope-names.ts";

interface KeyCreateOptions extends LimitOptions {
  readonly scope?: readonly Scope[];
  readonly expiresIn?: number;
  readonly expiresAt?: number;
}

/** Adds `keys create`. */
export function addKeyCreate(group: Command, act: Act): void {
  group
    .command("create")
    .argument("[id]", "name of the key, shown in logs and the audit trail (default: generated)")
    .addOption(
      new Option(
        "--scope <scopes>",
        "what the key may do; repeatable or comma-separated (default: all but admin)",
      ).argParser(scopes),
    )
    .addOption(
      new Option("--expires-in <duration>", "lifetime, for example 30d (default: no expiry)")
        .argParser(durationMs)
        .conflicts("expiresAt"),
    )
    .addOption(new Option("--expires-at <time>", "time of expiry, for example 2030-01-01T00:00:00Z").argParser(instant))
    .addOption(limitOptions.connection())
    .addOption(limitOptions.method())
    .addOption(limitOptions.path())
    .addOption(limitOptions.host())
    .addOption(limitOptions.tool())
    .summary("create a key for --environment and show its secret once")
    .addHelpText("after", '\nTo create a key for all environments, use --environment "" --scope admin')
    .action(
      act(
        async (
          { client, output, environment },
          id: string | undefined,
          { scope = [], expiresIn, expiresAt, ...limits }: KeyCreateOptions,
        ) => {
          const ends = expiresIn === undefined ? expiresAt : Date.now() + expiresIn;
          const answer = await client(EnvironmentService).createKey({
            environment,
            id: id ?? "",
            scopes: [...scope],
            ...(ends === undefined ? {} : { expiresAt: timestampFromMs(ends) }),
            ...limitsIn(limits),
          });
          await output.one(CreateKeyResponseSchema, answer);
          if (!output.json) await output.note("Save the secret now: it is not shown again.");
        },
      ),
    );
}
