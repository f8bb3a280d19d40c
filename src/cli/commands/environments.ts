import { durationFromMs } from "@bufbuild/protobuf/wkt";
import type { Command } from "commander";
import {
  DeleteEnvironmentResponseSchema,
  EnvironmentSchema,
  EnvironmentService,
  type SigningSecret,
  SigningSecretSchema,
} from "../../gen/latchkey/v1/environment_pb.ts";
import type { Act } from "../session.ts";
import { moment } from "../terminal/moment.ts";
import { durationMs, listed, revision } from "../terminal/option-values.ts";
import { pagesOf } from "../terminal/paging.ts";
import { UsageMistake } from "../terminal/usage-mistake.ts";

interface EnvironmentOptions {
  readonly forwardUrl?: string;
  readonly secondaryForwardUrl?: string;
  readonly allowedOrigin?: readonly string[];
  readonly expectedRevision?: bigint;
}

/** Adds the `environments` commands. */
export function addEnvironments(program: Command, act: Act): void {
  const group = program.command("environments").summary("deployments, kept apart from one another");

  group
    .command("list")
    .summary("all environments; with an environment's key, its own alone")
    .action(
      act(async ({ client, output }) => {
        const fetch = async (page: { readonly pageSize: number; readonly pageToken: string }) => {
          const { environments, nextPageToken } = await client(EnvironmentService).listEnvironments(page);
          return { items: environments, nextPageToken };
        };
        await output.many({
          schema: EnvironmentSchema,
          none: "no environments",
          pages: pagesOf({ fetch, maxPageSize: 1_000 }),
          columns: [
            { title: "NAME", text: ({ name }) => name },
            { title: "FORWARD URL", text: ({ forwardUrl }) => forwardUrl },
            { title: "DECLARED", text: ({ declared }) => (declared ? "yes" : "") },
            { title: "CREATED", text: ({ createdAt }) => moment(createdAt) },
          ],
        });
      }),
    );

  group
    .command("get")
    .argument("[name]", "default: --environment, or the key's own")
    .summary("one environment")
    .action(
      act(async ({ client, output, environment: own }, name?: string) => {
        const { environment } = await client(EnvironmentService).getEnvironment({ name: name ?? own });
        if (environment !== undefined) await output.one(EnvironmentSchema, environment);
      }),
    );

  withSettings(group.command("create"))
    .argument("<name>", "lower-case letters, digits and dashes")
    .summary("make an environment with nothing in it")
    .action(
      act(async ({ client, output }, name: string, { allowedOrigin = [], ...settings }: EnvironmentOptions) => {
        const request = { name, allowedOrigins: [...allowedOrigin], ...settings };
        const { environment } = await client(EnvironmentService).createEnvironment(request);
        if (environment !== undefined) await output.one(EnvironmentSchema, environment);
      }),
    );

  withSettings(group.command("update"))
    .argument("<name>")
    .option("--no-allowed-origins", "allow no origin any more")
    .option("--expected-revision <revision>", "refuse when it has changed since", revision)
    .summary("change what is given, and nothing else")
    .action(
      act(
        async ({ client, output }, name: string, given: EnvironmentOptions & { readonly allowedOrigins: boolean }) => {
          const { forwardUrl, secondaryForwardUrl, expectedRevision = 0n } = given;
          const allowedOrigins = given.allowedOrigins ? given.allowedOrigin : [];
          const paths = [
            ...(forwardUrl === undefined ? [] : ["forward_url"]),
            ...(secondaryForwardUrl === undefined ? [] : ["secondary_forward_url"]),
            ...(allowedOrigins === undefined ? [] : ["allowed_origins"]),
          ];
          // An empty mask would mean all fields, and clear those that were not given.
          if (paths.length === 0)
            throw new UsageMistake("say what to change: --forward-url, --secondary-forward-url or --allowed-origin");
          const { environment } = await client(EnvironmentService).updateEnvironment({
            environment: {
              name,
              forwardUrl: forwardUrl ?? "",
              secondaryForwardUrl: secondaryForwardUrl ?? "",
              allowedOrigins: [...(allowedOrigins ?? [])],
            },
            updateMask: { paths },
            expectedRevision,
          });
          if (environment !== undefined) await output.one(EnvironmentSchema, environment);
        },
      ),
    );

  group
    .command("delete")
    .argument("<name>")
    .option("--expected-revision <revision>", "refuse when it has changed since", revision)
    .summary("delete an environment that holds no integration any more, with its keys")
    .action(
      act(async ({ client, output }, name: string, { expectedRevision = 0n }: EnvironmentOptions) => {
        const answer = await client(EnvironmentService).deleteEnvironment({ name, expectedRevision });
        await output.done(DeleteEnvironmentResponseSchema, answer, `deleted environment ${name}`);
      }),
    );

  group
    .command("secrets")
    .argument("[name]", "default: --environment, or the only one there is")
    .option("--reveal", "show the secrets themselves")
    .summary("what signs an environment's forwards now, the newest first")
    .action(
      act(async ({ client, output, environment: own }, name: string | undefined, { reveal = false }: RevealOption) => {
        const request = { environment: name ?? own, reveal };
        async function* pages() {
          yield (await client(EnvironmentService).listSigningSecrets(request)).secrets;
        }
        await output.many({
          schema: SigningSecretSchema,
          none: "no signing secrets",
          pages: pages(),
          columns: [
            { title: "ID", text: ({ id }) => id },
            { title: "CREATED", text: ({ createdAt }) => moment(createdAt) },
            { title: "SIGNS UNTIL", text: ({ retiresAt }) => moment(retiresAt) },
            ...(reveal ? [{ title: "SECRET", text: ({ secret }: SigningSecret) => secret }] : []),
          ],
        });
      }),
    );

  group
    .command("rotate-secret")
    .argument("[name]", "default: --environment, or the only one there is")
    .option("--overlap <duration>", "how long the former goes on signing, 0s for no longer; default: 24h", durationMs)
    .option("--reveal", "show the new secret")
    .summary("make a new secret that signs an environment's forwards, beside the former for a while")
    .action(
      act(async ({ client, output, environment: own }, name: string | undefined, { reveal, overlap }: Rotation) => {
        const { secret } = await client(EnvironmentService).rotateSigningSecret({
          environment: name ?? own,
          ...(overlap === undefined ? {} : { overlap: durationFromMs(overlap) }),
        });
        if (secret === undefined) return;
        await output.one(SigningSecretSchema, reveal === true ? secret : { ...secret, secret: "" });
        if (reveal !== true && !output.json) await output.note("`environments secrets --reveal` shows the secret.");
      }),
    );
}

interface RevealOption {
  readonly reveal?: boolean;
}

interface Rotation extends RevealOption {
  readonly overlap?: number;
}

const withSettings = (command: Command): Command =>
  command
    .option("--forward-url <url>", "where webhooks are forwarded")
    .option("--secondary-forward-url <url>", "where a second copy of each goes")
    .option("--allowed-origin <origin>", "whose pages may use the browser routes; repeatable", listed);
