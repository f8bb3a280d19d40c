import { fromJson } from "@bufbuild/protobuf";
import type { Command } from "commander";
import { parseDocument } from "yaml";
import {
  DeleteProviderResponseSchema,
  type Provider,
  ProviderSchema,
  ProviderService,
} from "../../gen/latchkey/v1/provider_pb.ts";
import type { Act } from "../session.ts";
import { readInput } from "../terminal/input.ts";
import { revision } from "../terminal/option-values.ts";
import { pagesOf } from "../terminal/paging.ts";
import type { Terminal } from "../terminal/terminal.ts";
import { UsageMistake } from "../terminal/usage-mistake.ts";

interface ProviderRevisionOption {
  readonly expectedRevision?: bigint;
}

/** Adds the `providers` commands, for the catalogue and custom descriptions. */
export function addProviders(program: Command, act: Act): void {
  const group = program.command("providers").summary("what is known of third parties, and descriptions of others");

  group
    .command("list")
    .option("--search <text>", "only those whose name contains it")
    .summary("the catalogue and the custom providers")
    .action(
      act(async ({ client, output }, { search = "" }: { readonly search?: string }) => {
        const fetch = async (page: { readonly pageSize: number; readonly pageToken: string }) => {
          const { providers, nextPageToken } = await client(ProviderService).listProviders({ search, ...page });
          return { items: providers, nextPageToken };
        };
        await output.many({
          schema: ProviderSchema,
          none: "no providers",
          pages: pagesOf({ fetch, maxPageSize: 1_000 }),
          columns: [
            { title: "NAME", text: ({ name }) => name },
            { title: "CALLED", text: ({ displayName }) => displayName },
            { title: "AUTH", text: authName },
            { title: "FOR", text: ({ categories }) => categories.join(",") },
            { title: "CUSTOM", text: ({ custom }) => (custom ? "yes" : "") },
          ],
        });
      }),
    );

  group
    .command("get")
    .argument("<name>")
    .summary("one provider, in the form that create and update read")
    .action(
      act(async ({ client, output }, name: string) => {
        const { provider } = await client(ProviderService).getProvider({ name });
        if (provider !== undefined) await output.one(ProviderSchema, provider);
      }),
    );

  group
    .command("create")
    .argument("<file>", "its description in YAML or JSON; - reads what is piped in")
    .summary("add a custom provider, for all environments")
    .action(
      act(async ({ client, output, terminal }, file: string) => {
        const { provider } = await client(ProviderService).createProvider({
          provider: await readProvider(file, terminal),
        });
        if (provider !== undefined) await output.one(ProviderSchema, provider);
      }),
    );

  group
    .command("update")
    .argument("<file>", "its whole new description in YAML or JSON; its name says which one")
    .option("--expected-revision <revision>", "refuse when it has changed since", revision)
    .summary("replace a custom provider's description")
    .action(
      act(async ({ client, output, terminal }, file: string, { expectedRevision = 0n }: ProviderRevisionOption) => {
        const description = await readProvider(file, terminal);
        const { provider } = await client(ProviderService).updateProvider({ provider: description, expectedRevision });
        if (provider !== undefined) await output.one(ProviderSchema, provider);
      }),
    );

  group
    .command("delete")
    .argument("<name>")
    .option("--expected-revision <revision>", "refuse when it has changed since", revision)
    .summary("delete a custom provider that no integration uses")
    .action(
      act(async ({ client, output }, name: string, { expectedRevision = 0n }: ProviderRevisionOption) => {
        const answer = await client(ProviderService).deleteProvider({ name, expectedRevision });
        await output.done(DeleteProviderResponseSchema, answer, `deleted provider ${name}`);
      }),
    );
}

/** Returns the name in the description: `api_key`. */
const authName = ({ auth }: Provider) => (auth.case === undefined ? "" : ProviderSchema.field[auth.case].name);

/** Reads YAML, which includes JSON. Fields may have either of their protobuf names; unknown fields are refused. */
async function readProvider(file: string, terminal: Terminal): Promise<Provider> {
  const document = parseDocument(await readInput(file, terminal));
  const [error] = document.errors;
  if (error !== undefined) throw new UsageMistake(`${file} is not YAML: ${error.message.split("\n", 1)[0]}`);
  try {
    return fromJson(ProviderSchema, document.toJS({ maxAliasCount: 100 }));
  } catch (cause) {
    const why = cause instanceof Error ? cause.message.replace("latchkey.v1.", "") : "it does not fit";
    throw new UsageMistake(`${file} does not describe a provider: ${why}`, { cause });
  }
}
