import type { Command } from "commander";
import {
  DeleteProviderResponseSchema,
  type Provider,
  ProviderSchema,
  ProviderService,
} from "../../gen/latchkey/v1/provider_pb.ts";
import { addOwnCommand } from "../process/own-command.ts";
import type { Act } from "../session.ts";
import { requireYes, withYes, type YesOption } from "../terminal/confirm.ts";
import { exitCodes } from "../terminal/exit-codes.ts";
import type { Terminal } from "../terminal/terminal.ts";
import { listCommand, objectCommand, type RevisionOption, withExpectedRevision } from "./command-kinds.ts";
import {
  checkOnServer,
  providerCheckCommand,
  providerDraftCommand,
  providerSchemaCommand,
  readProviderFile,
} from "./provider-files.ts";

interface ProviderCommandContext {
  readonly terminal: Terminal;
  readonly keepExitCode: (code: number) => void;
}

/** Adds the `providers` commands, for the catalogue and custom descriptions. */
export function addProviders(program: Command, act: Act, { terminal, keepExitCode }: ProviderCommandContext): void {
  const group = program.command("providers").summary("show the catalog of providers, and manage custom ones");
  addList(group, act);
  for (const own of [providerCheckCommand(terminal), providerDraftCommand(terminal), providerSchemaCommand(terminal)])
    addOwnCommand(group, own, keepExitCode);

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
    .argument("<file>", "YAML or JSON file with the description; - reads stdin")
    .option("--check", "only check the file by the rules of this server; exit code 1 if there is a mistake");
  create.action(
    act(async (session, file: string, { check }: { readonly check?: true }) => {
      if (check === true) return checkOnServer(session, file);
      const provider = await readProviderFile(file, session.terminal);
      const { provider: created } = await session.client(ProviderService).createProvider({ provider });
      if (created !== undefined) await session.output.one(ProviderSchema, created);
      return exitCodes.ok;
    }),
  );

  const update = withExpectedRevision(group.command("update"))
    .summary("replace the description of a custom provider")
    .argument("<file>", "YAML or JSON file with the whole new description, including the name; - reads stdin");
  objectCommand(update, act, ProviderSchema, async ({ client, terminal }, file: string, given: RevisionOption) => {
    const description = await readProviderFile(file, terminal);
    const request = { provider: description, expectedRevision: given.expectedRevision ?? 0n };
    return (await client(ProviderService).updateProvider(request)).provider;
  });

  withYes(withExpectedRevision(group.command("delete")))
    .summary("delete a custom provider; no integration may use it")
    .argument("<name>", "name of the provider")
    .action(
      act(async (session, name: string, { expectedRevision = 0n, yes }: RevisionOption & YesOption) => {
        const { client, output } = session;
        await requireYes(session.terminal, `Delete the provider ${name}?`, yes);
        const answer = await client(ProviderService).deleteProvider({ name, expectedRevision });
        await output.done(DeleteProviderResponseSchema, answer, `deleted provider ${name}`);
      }),
    );
}

function addList(group: Command, act: Act): void {
  const list = group
    .command("list")
    .summary("list the providers of the catalog and the custom ones")
    .option("--search <text>", "only providers whose name contains this text");
  listCommand(list, act, {
    schema: ProviderSchema,
    none: "no providers",
    rpc: ({ client }, page, { search = "" }: { readonly search?: string }) =>
      client(ProviderService).listProviders({ search, ...page }),
    items: ({ providers }) => providers,
    columns: [
      { title: "NAME", text: ({ name }) => name },
      { title: "TITLE", text: ({ displayName }) => displayName },
      { title: "AUTH", text: authName },
      { title: "CATEGORIES", text: ({ categories }) => categories.join(",") },
      { title: "CUSTOM", text: ({ custom }) => (custom ? "yes" : "") },
    ],
  });
}

/** Returns the name in the description: `api_key`. */
const authName = ({ auth }: Provider) => (auth.case === undefined ? "" : ProviderSchema.field[auth.case].name);
