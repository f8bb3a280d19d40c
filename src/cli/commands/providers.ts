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
import type { Terminal } from "../terminal/terminal.ts";
import { UsageMistake } from "../terminal/usage-mistake.ts";
import { listCommand, objectCommand, type RevisionOption, withExpectedRevision } from "./command-kinds.ts";

/** Adds the `providers` commands, for the catalogue and custom descriptions. */
export function addProviders(program: Command, act: Act): void {
  const group = program.command("providers").summary("show the catalogue of providers, and manage custom ones");
  addList(group, act);

  const get = group
    .command("get")
    .summary("show a provider, in the format that create and update read")
    .argument("<name>", "name of the provider");
  objectCommand(get, act, ProviderSchema, async ({ client }, name: string) => {
    const { provider } = await client(ProviderService).getProvider({ name });
    return provider;
  });

  const create = group
    .command("create")
    .summary("create a custom provider, for all environments")
    .argument("<file>", "YAML or JSON file with the description; - reads stdin");
  objectCommand(create, act, ProviderSchema, async ({ client, terminal }, file: string) => {
    const request = { provider: await readProvider(file, terminal) };
    return (await client(ProviderService).createProvider(request)).provider;
  });

  const update = withExpectedRevision(group.command("update"))
    .summary("replace the description of a custom provider")
    .argument("<file>", "YAML or JSON file with the whole new description, including the name; - reads stdin");
  objectCommand(update, act, ProviderSchema, async ({ client, terminal }, file: string, given: RevisionOption) => {
    const description = await readProvider(file, terminal);
    const request = { provider: description, expectedRevision: given.expectedRevision ?? 0n };
    return (await client(ProviderService).updateProvider(request)).provider;
  });

  withExpectedRevision(group.command("delete"))
    .summary("delete a custom provider; no integration may use it")
    .argument("<name>", "name of the provider")
    .action(
      act(async ({ client, output }, name: string, { expectedRevision = 0n }: RevisionOption) => {
        const answer = await client(ProviderService).deleteProvider({ name, expectedRevision });
        await output.done(DeleteProviderResponseSchema, answer, `deleted provider ${name}`);
      }),
    );
}

function addList(group: Command, act: Act): void {
  const list = group
    .command("list")
    .summary("list the providers of the catalogue and the custom ones")
    .option("--search <text>", "only providers whose name contains this text");
  listCommand(list, act, {
    schema: ProviderSchema,
    none: "no providers",
    rpc: ({ client }, page, { search = "" }: { readonly search?: string }) =>
      client(ProviderService).listProviders({ search, ...page }),
    items: ({ providers }) => providers,
    columns: [
      { title: "NAME", text: ({ name }) => name },
      { title: "CALLED", text: ({ displayName }) => displayName },
      { title: "AUTH", text: authName },
      { title: "FOR", text: ({ categories }) => categories.join(",") },
      { title: "CUSTOM", text: ({ custom }) => (custom ? "yes" : "") },
    ],
  });
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
