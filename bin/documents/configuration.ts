import { toJsonSchema } from "@valibot/to-json-schema";
import * as v from "valibot";
import { parse } from "yaml";
import { edgeVariables, sharedWithEdges } from "../../src/config/edges/edge-variables.ts";
import { fileSchema } from "../../src/config/file.ts";
import { variables } from "../../src/config/variables.ts";
import { annotatedFile } from "./configuration-file.ts";
import { code, generatedNote, page, sentence, table } from "./markdown.ts";

/** The groups of variables, by the beginnings of their names after `LATCHKEY_`. */
const groups: readonly (readonly [title: string, names: RegExp])[] = [
  ["Listeners and addresses", /^LATCHKEY_(?:\w+_LISTEN|PUBLIC_URL|DOCS_URL|ALLOWED_HOSTS|FAST_LANE)$/],
  ["Store and keys", /^LATCHKEY_(?:STORE|SEAL_KEYS|SECRET_KEY|ADMIN_KEY)$/],
  ["Environment `dev`", /^LATCHKEY_(?:FORWARD_URL|FORWARD_SECRET|ALLOWED_ORIGINS)$/],
  ["Files", /^LATCHKEY_(?:CONFIG|SCRIPTS)$/],
  ["Providers", /^LATCHKEY_(?:ALLOW_PRIVATE|PROVIDER_CA)$/],
  ["Stopping", /^LATCHKEY_(?:GRACE|STREAM_GRACE|DRAIN_DELAY)$/],
  ["Logs", /^LATCHKEY_LOG_/],
  ["Traces", /^OTEL_/],
];

type Variable = (typeof variables)[number] | (typeof edgeVariables)[number];

/** docs/configuration.md: variables and the annotated file. */
export function configurationPage(): string {
  const file = annotatedFile(Object.hasOwn(environmentFields(), "branding"));
  requireComplete(file);
  const grouped = groups.map(([title, names]) => [title, variables.filter(({ name }) => names.test(name))] as const);
  const other = variables.filter(({ name }) => !groups.some(([, names]) => names.test(name)));
  const sections = [...grouped, ...(other.length > 0 ? [["Other", other] as const] : [])];
  return page(
    generatedNote,
    "# Configuration",
    "This page lists every environment variable, and every key of the configuration file.",
    `Latchkey reads variables first. Lists, such as environments and integrations, are in the YAML file that \`LATCHKEY_CONFIG\` names. All mistakes are reported at once, without secrets, and the process exits with 78.

\`\`\`sh
latchkey config check latchkey.yaml    # 0: valid, 78: not
latchkey config schema                 # JSON Schema, for editors
\`\`\`

A secret may come from a file: \`LATCHKEY_SEAL_KEYS_FILE=/run/secrets/seal-keys\`. The file must not be readable by all users of the machine. Variables that can name a file are marked "or \`_FILE\`".`,
    "## Variables",
    ...sections.map(([title, rows]) => page(`### ${title}`, variableTable(rows)).trimEnd()),
    page(
      "### Edges",
      `\`latchkey edge\` reads these as well as ${sharedWithEdges.map((name) => `\`${name}\``).join(", ")} and \`OTEL_…\`.`,
      variableTable(edgeVariables),
    ).trimEnd(),
    `### Command line

\`LATCHKEY_CONTROL\`, \`LATCHKEY_KEY\` and \`LATCHKEY_ENVIRONMENT\` are options of the [command line](cli.md). \`serve\` ignores them.`,
    "## The configuration file",
    "The file below shows every key, with its default where it has one. Unknown keys are refused. Never write a secret into the file: refer to it by `{ env: NAME }` or `{ file: path }`.",
    `\`\`\`yaml\n${file.trimEnd()}\n\`\`\``,
    `## What a reload changes

Latchkey reads the file again when it or a file that it names changes, and on SIGHUP. A file that is not valid is rejected as a whole: the log says why, \`latchkey_config_rejected\` is 1, and the previous configuration stays in force.`,
    table(
      ["Applied without a restart", "Needs a restart"],
      [
        ["`environments`, `integrations`, `providers`, `policies`", "all variables"],
        [
          "`proxy.requests`, `proxy.overload`, `proxy.rates`",
          "`proxy.connect_ms`, `answer_ms`, `idle_ms`, `requests_per_host`, `waiting_per_host`",
        ],
        [
          "`webhooks`, `retention`, `edges`, `identities`, `mcp`",
          "`access_sessions`, `limits`, `scripts`, `aliases`, `tls`, sockets of `identities`",
        ],
      ],
    ),
    `- \`latchkey system config\` shows each value in force, where it comes from, and what the last reload changed.
- A request cannot change what the file declares: the answer is \`read_only\`.
- Objects that you remove from the file are not deleted: requests can change them again.
- A reload refuses an empty file: it may have been cut off while it was written. To declare nothing, write \`{}\`.
- Scripts are read again when a file of the scripts folder changes.`,
    "Next: [limits](limits.md) in one page, [security](security.md), [production checklist](production-checklist.md).",
  );
}

const variableTable = (rows: readonly Variable[]): string =>
  table(
    ["Variable", "Default", "Meaning"],
    rows.map((row) => {
      const twin = "secret" in row ? "<br>or `_FILE`" : "twin" in row ? `<br>or ${code(row.twin)}` : "";
      return [`${code(row.name)}${twin}`, row.default, sentence(row.meaning)];
    }),
  );

interface JsonSchema {
  readonly properties?: Readonly<Record<string, JsonSchema>>;
  readonly items?: JsonSchema;
}

const schema = () => toJsonSchema(fileSchema, { errorMode: "ignore" }) as JsonSchema;
const environmentFields = () => schema().properties?.["environments"]?.items?.properties ?? {};

/** Throws if the annotated file is not valid, or lacks a key of the schema. */
function requireComplete(text: string): void {
  const file: unknown = parse(text);
  const { issues } = v.safeParse(fileSchema, file);
  if (issues !== undefined)
    throw new Error(
      `the annotated file is not valid: ${issues.map((one) => `${v.getDotPath(one)} ${one.message}`).join("; ")}`,
    );
  const written = new Set(pathsIn(file));
  const missing = pathsOf(schema()).filter(
    (path) => !written.has(path) && !/^tls\.(?!data)|\.burst$|^providers\./.test(path),
  );
  if (missing.length > 0) throw new Error(`bin/documents/configuration-file.ts lacks ${missing.join(", ")}`);
}

const pathsOf = ({ properties = {}, items }: JsonSchema, at = ""): string[] => [
  ...(items === undefined ? [] : pathsOf(items, at)),
  ...Object.entries(properties).flatMap(([name, inner]) => {
    const path = at === "" ? name : `${at}.${name}`;
    return [path, ...pathsOf(inner, path)];
  }),
];

function pathsIn(value: unknown, at = ""): string[] {
  if (Array.isArray(value)) return value.flatMap((one) => pathsIn(one, at));
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([name, inner]) => {
    const path = at === "" ? name : `${at}.${name}`;
    return [path, ...pathsIn(inner, path)];
  });
}
