import { type Provider, ProviderService } from "../../gen/latchkey/v1/provider_pb.ts";
import type { OwnCommand } from "../process/own-command.ts";
import type { CommandSession } from "../session.ts";
import { escapeControl } from "../terminal/escape-control.ts";
import { exitCodes } from "../terminal/exit-codes.ts";
import { formatCount } from "../terminal/format.ts";
import { readInput } from "../terminal/input.ts";
import { createOutput, type Output } from "../terminal/output.ts";
import { createPaint } from "../terminal/paint.ts";
import { type Terminal, write } from "../terminal/terminal.ts";
import { UsageMistake } from "../terminal/usage-mistake.ts";

/** Loads the checks only when they are needed. */
const fileChecks = () => import("../../providers/check-file.ts");

/** The command `providers check`. Needs no running Latchkey. */
export const providerCheckCommand = (terminal: Terminal): OwnCommand => ({
  name: "check",
  summary: "check provider files, without starting anything; exit code 1 if there is a mistake",
  arguments: ["<file...>"],
  canJson: true,
  helpText:
    "FILE is YAML or JSON: one provider, a list of providers, or a configuration file with `providers`; - reads stdin.\n" +
    "All mistakes are printed as FILE:LINE:COLUMN: PATH: MESSAGE, and what is missing as a warning.\n" +
    "With --json, each is an object on its own line.\n",
  async run(files, { json }) {
    const { checkProviderFile } = await fileChecks();
    const output = createOutput(terminal, { json: json === true, paint: createPaint(terminal) });
    let [good, bad] = [0, 0];
    for (const file of files) {
      const { providers, mistakes, warnings } = checkProviderFile(await readInput(file, terminal));
      good += providers.length;
      bad += mistakes.length;
      await printFound(output, file, { mistakes, warnings });
    }
    return printSum(output, { good, bad });
  },
});

/** Checks a file by the rules of the server, which also knows the names that are taken. */
export async function checkOnServer({ client, output, terminal }: CommandSession, file: string): Promise<number> {
  const text = await readInput(file, terminal);
  const { providers, mistakes, warnings } = await client(ProviderService).checkProvider({ text });
  await printFound(output, file, { mistakes, warnings });
  return printSum(output, { good: providers.length, bad: mistakes.length });
}

interface FoundMistakes {
  readonly mistakes: readonly PlacedMistake[];
  readonly warnings: readonly PlacedMistake[];
}

async function printFound(output: Output, file: string, { mistakes, warnings }: FoundMistakes): Promise<void> {
  const found = [
    ...mistakes.map((one) => ({ one, severity: "error" })),
    ...warnings.map((one) => ({ one, severity: "warning" })),
  ];
  for (const { one, severity } of found) {
    const { line, column, path, message } = one;
    if (output.json) await output.document({ file: nameOf(file), severity, line, column, path, message });
    else await output.line(placed(file, one, severity === "warning" ? "warning: " : ""));
  }
}

async function printSum(
  output: Output,
  { good, bad }: { readonly good: number; readonly bad: number },
): Promise<number> {
  await output.note(bad > 0 ? formatCount(bad, "mistake") : `${formatCount(good, "provider")}, no mistakes`);
  return bad > 0 ? exitCodes.failed : exitCodes.ok;
}

/** The command `providers schema`. */
export const providerSchemaCommand = (terminal: Terminal): OwnCommand => ({
  name: "schema",
  summary: "print the JSON Schema of a provider file, for editors",
  async run() {
    const { providerSchema } = await import("../../providers/schema.ts");
    terminal.stdout.write(providerSchema());
    return exitCodes.ok;
  },
});

/** The command `providers import-openapi`. Needs no running Latchkey. */
export const providerDraftCommand = (terminal: Terminal): OwnCommand => ({
  name: "import-openapi",
  summary: "draft a provider file from an OpenAPI document",
  arguments: ["<file>"],
  options: [{ flags: "--name <name>", summary: "name of the provider (default: from the title of the document)" }],
  helpText:
    "FILE is OpenAPI 3 or Swagger 2.0, as YAML or JSON; - reads stdin. The draft is printed as YAML: credentials, scopes,\n" +
    "addresses, pagination and a verification request, as far as the document says. Its comments say what to find out.\n" +
    "Then: providers check FILE, and providers create FILE.\n",
  async run([file = "-"], { name }) {
    const { draftFromOpenApi, OpenApiMistake } = await import("../../providers/openapi/draft.ts");
    const text = await readInput(file, terminal);
    try {
      const draft = draftFromOpenApi(text, { name: typeof name === "string" ? name : undefined });
      await write(terminal.stdout, draft.text);
      await write(terminal.stderr, `${formatCount(draft.questions.length, "question")} to answer: see the comments\n`);
      return exitCodes.ok;
    } catch (error) {
      if (error instanceof OpenApiMistake) throw new UsageMistake(`${nameOf(file)}: ${error.message}`);
      throw error;
    }
  },
});

/** Reads the description of one provider. Reports every mistake with its place. */
export async function readProviderFile(file: string, terminal: Terminal): Promise<Provider> {
  const { checkProviderFile } = await fileChecks();
  const { providers, mistakes } = checkProviderFile(await readInput(file, terminal));
  const [provider] = providers;
  if (mistakes.length > 0) {
    for (const mistake of mistakes) await write(terminal.stderr, `${placed(file, mistake)}\n`);
    throw new UsageMistake(`${nameOf(file)} does not describe a provider: ${formatCount(mistakes.length, "mistake")}`);
  }
  if (provider === undefined || providers.length > 1)
    throw new UsageMistake(`${nameOf(file)} must describe one provider`);
  return provider;
}

interface PlacedMistake {
  readonly line: number;
  readonly column: number;
  readonly path: string;
  readonly message: string;
}

const nameOf = (file: string) => (file === "-" ? "stdin" : file);
const placed = (file: string, { line, column, path, message }: PlacedMistake, severity = ""): string =>
  escapeControl(`${nameOf(file)}:${line}:${column}: ${severity}${path === "" ? "" : `${path}: `}${message}`);
