import type { Command } from "commander";
import {
  type ConfigDifference,
  type ConfigSetting,
  ConfigSettingSchema,
  ConfigDifference_Kind as Kind,
  ConfigSetting_Origin as Origin,
  ReplicaSchema,
  Warning_Severity as Severity,
  SystemService,
  Warning_SeveritySchema,
  WarningSchema,
} from "../../gen/latchkey/v1/system_pb.ts";
import type { Act, CommandSession } from "../session.ts";
import { formatNumber } from "../terminal/format.ts";
import type { Tone } from "../terminal/paint.ts";
import { listCommand } from "./command-kinds.ts";

interface ShowConfigOptions {
  readonly set?: boolean;
}

/** Adds the `system` commands: what a running Latchkey is set up with, and what is wrong with it. */
export function addSystem(program: Command, act: Act): void {
  const group = program.command("system").summary("show configuration, warnings and replicas of a running Latchkey");
  group
    .command("config")
    .argument("[text]", "only settings whose name contains this text")
    .option("--set", "only settings that differ from the default")
    .summary("show the configuration in force, where each value is from, and what the last reload changed")
    .action(act(showConfig));
  listCommand(group.command("warnings").summary("list what needs attention, most urgent first"), act, {
    schema: WarningSchema,
    none: "nothing needs attention",
    rpc: async ({ client, environment }) =>
      onlyPage((await client(SystemService).listWarnings({ environment })).warnings),
    items: ({ items }) => items,
    columns: [
      {
        title: "SEVERITY",
        text: ({ severity }) => severityName(severity),
        tone: ({ severity }) => toneOf[severity] ?? "plain",
      },
      { title: "CODE", text: ({ code }) => code },
      { title: "ENVIRONMENT", text: ({ environment }) => environment },
      { title: "MESSAGE", text: ({ message }) => message },
      { title: "WHAT TO DO", text: ({ remedy }) => remedy },
    ],
  });
  listCommand(
    group.command("replicas").summary("list the running replicas, and the background work that each does"),
    act,
    {
      schema: ReplicaSchema,
      none: "no replicas",
      rpc: async ({ client }) => onlyPage((await client(SystemService).listReplicas({})).replicas),
      items: ({ items }) => items,
      columns: [
        { title: "HOST", text: ({ host, answering }) => `${host}${answering ? " (this one)" : ""}` },
        { title: "VERSION", text: ({ version }) => version },
        { title: "STARTED", time: ({ startedAt }) => startedAt },
        { title: "SEEN", time: ({ seenAt }) => seenAt },
        { title: "BEHIND", text: ({ behind }) => formatNumber(Number(behind)) },
        { title: "PARTITIONS", text: ({ partitions }) => formatNumber(partitions) },
        { title: "DUTIES", text: ({ duties }) => duties.join(", ") },
      ],
    },
  );
}

const toneOf: Readonly<Record<Severity, Tone>> = {
  [Severity.UNSPECIFIED]: "plain",
  [Severity.CRITICAL]: "bad",
  [Severity.WARNING]: "warning",
  [Severity.NOTICE]: "plain",
};

const severityName = (severity: Severity): string =>
  (Warning_SeveritySchema.value[severity]?.localName ?? "unknown").toLowerCase();

async function showConfig(
  { client, output }: CommandSession,
  text: string | undefined,
  { set = false }: ShowConfigOptions,
): Promise<void> {
  const { settings, lastReload } = await client(SystemService).getConfig({});
  const wanted = settings.filter(
    ({ name, origin }) =>
      name.toLowerCase().includes((text ?? "").toLowerCase()) && (!set || origin !== Origin.DEFAULT),
  );
  await output.many({
    schema: ConfigSettingSchema,
    none: "no settings",
    pages: onePage(wanted),
    columns: [
      { title: "NAME", text: ({ name }) => name },
      { title: "VALUE", text: valueText },
      { title: "FROM", text: originText },
    ],
  });
  if (output.json || lastReload === undefined) return;
  const { applied, differences, mistakes } = lastReload;
  const lines = applied ? differences.map(differenceText) : mistakes;
  const result = applied ? "applied" : "rejected; the previous configuration is in force";
  await output.line(`\nlast reload: ${result}${lines.map((line) => `\n  ${line}`).join("")}`);
}

/** A list that has no further pages. */
const onlyPage = <T>(items: readonly T[]) => ({ items, nextPageToken: "" });

async function* onePage<T>(page: readonly T[]): AsyncGenerator<readonly T[]> {
  yield page;
}

const valueText = ({ secret, value, needsRestart }: ConfigSetting): string =>
  `${secret ? "(set)" : value}${needsRestart ? " (the file has another value: restart)" : ""}`;

const originText = ({ origin, name, variable, file, line }: ConfigSetting): string => {
  if (origin === Origin.DEFAULT) return "default";
  if (origin === Origin.VARIABLE) return variable === name ? "variable" : variable;
  return line > 0 ? `${file}:${line}` : file;
};

function differenceText({ name, kind, before, after, needsRestart }: ConfigDifference): string {
  const late = needsRestart ? " (needs a restart)" : "";
  if (kind === Kind.ADDED) return `+ ${name}${after && `: ${after}`}${late}`;
  if (kind === Kind.REMOVED) return `- ${name}${before && `: ${before}`}${late}`;
  return `~ ${name}${before || after ? `: ${before} -> ${after}` : ""}${late}`;
}
