import type { Command } from "commander";
import { type RecentRequest, RecentRequestSchema, TrafficService } from "../../../gen/latchkey/v1/traffic_pb.ts";
import type { Act } from "../../session.ts";
import { escapeControl, escapeControlInLines } from "../../terminal/escape-control.ts";
import { formatTime } from "../../terminal/format.ts";
import { count, durationMs } from "../../terminal/option-values.ts";
import type { Paint, Tone } from "../../terminal/paint.ts";
import { plainJson } from "../../terminal/plain-json.ts";
import { write } from "../../terminal/terminal.ts";
import { listCommand } from "../command-kinds.ts";
import { type ConnectionName, nameOf, placeName } from "../connections/names.ts";
import { addSend } from "./send.ts";
import { addStats } from "./stats.ts";

interface ConditionOptions {
  readonly of?: ConnectionName;
  readonly method?: string;
  readonly path?: string;
  readonly status?: string;
  readonly byLatchkey?: true;
  readonly slower?: number;
  readonly caller?: string;
}

/** Adds the `requests` commands: what went through the proxy of this replica. */
export function addRequests(program: Command, act: Act): void {
  const group = program.command("requests").summary("show and send requests through the proxy");
  const list = withConditions(
    group.command("list", { isDefault: true }).summary("list the most recent requests of this replica, newest first"),
  );
  listCommand(list, act, {
    schema: RecentRequestSchema,
    none: "no requests",
    defaultLimit: 50,
    rpc: ({ client, environment }, page, given: ConditionOptions) =>
      client(TrafficService).listRequests({ environment, filter: filterOf(given), ...page }),
    items: ({ requests }) => requests,
    columns: [
      { title: "WHEN", time: ({ at }) => at },
      { title: "STATUS", text: statusText, tone: statusTone },
      { title: "METHOD", text: ({ method }) => method },
      { title: "PATH", text: pathText },
      { title: "CONNECTION", text: ({ connection }) => nameOf(connection) },
      { title: "TOOK", text: ({ totalMs }) => milliseconds(totalMs) },
      { title: "LATCHKEY", text: ({ addedMs }) => milliseconds(addedMs) },
      { title: "ATTEMPTS", text: ({ attempts }) => String(attempts) },
      { title: "KEY", text: ({ keyId }) => keyId },
    ],
  });
  addWatch(group, act);
  addStats(group, act);
  addSend(group, act);
}

const withConditions = (command: Command): Command =>
  command
    .option("--of <integration[/connection]>", "only requests of this integration or connection", placeName)
    .option("--method <method>", "only requests with this method")
    .option("--path <text>", "only paths that contain this text")
    .option("--status <digits>", "only statuses that begin so: 5, 40, 404")
    .option("--by-latchkey", "only requests that Latchkey answered with an error")
    .option("--slower <duration>", "only requests that took at least as long, for example 500ms", durationMs)
    .option("--caller <key>", "only requests of this key");

const filterOf = ({
  of,
  method = "",
  path = "",
  status = "",
  byLatchkey,
  slower = 0,
  caller = "",
}: ConditionOptions) => ({
  integration: of?.integration ?? "",
  connectionId: of?.id ?? "",
  method: method.toUpperCase(),
  path,
  status,
  byLatchkey: byLatchkey === true,
  minMs: slower,
  keyId: caller,
});

function addWatch(group: Command, act: Act): void {
  withConditions(group.command("watch"))
    .summary("print each request of this replica once it is over")
    .option("--recent <count>", "how many recent requests to begin with (default: 10)", count)
    .action(
      act(async ({ client, output, environment, terminal }, given: ConditionOptions & { readonly recent?: number }) => {
        const request = { environment, filter: filterOf(given), recent: given.recent ?? 10 };
        try {
          for await (const { requests, missed } of client(TrafficService).watchRequests(request)) {
            if (missed > 0n) await output.note(`${missed} requests came too fast and are not shown.`);
            const lines = requests.map((one) =>
              output.json
                ? escapeControlInLines(JSON.stringify(plainJson(RecentRequestSchema, one)))
                : describe(one, output.paint),
            );
            if (lines.length > 0) await write(terminal.stdout, `${lines.join("\n")}\n`);
          }
        } catch (error) {
          // An interrupt is the normal end of a watch.
          if (!terminal.signal.aborted) throw error;
        }
      }),
    );
}

function describe(request: RecentRequest, paint: Paint): string {
  const { at, method, connection, totalMs, addedMs, attempts, keyId } = request;
  const times = `${milliseconds(totalMs)} (${milliseconds(addedMs)} Latchkey)`;
  const more = attempts > 1 ? `, ${attempts} attempts` : "";
  const target = escapeControl(`${method} ${pathText(request)}  ${nameOf(connection)}`);
  return [
    paint("dim", at === undefined ? "" : formatTime(at)),
    paint(statusTone(request), statusText(request)),
    target,
    paint("dim", escapeControl(`${times}${more}, key ${keyId}`)),
  ].join("  ");
}

const pathText = ({ path, hasQuery }: RecentRequest): string => (hasQuery ? `${path}?…` : path);

const statusText = ({ status, errorCode, tunnel }: RecentRequest): string => {
  if (errorCode !== "") return `${status} ${errorCode}`;
  if (status === 0) return "caller left";
  return tunnel ? `${status} WebSocket` : String(status);
};

const statusTone = ({ status, errorCode }: RecentRequest): Tone => {
  if (errorCode !== "" || status >= 500 || status === 0) return "bad";
  return status >= 400 ? "warning" : "good";
};

const milliseconds = (ms: number): string => (ms < 10 ? `${ms.toFixed(1)} ms` : `${Math.round(ms)} ms`);
