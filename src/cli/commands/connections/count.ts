import { setTimeout as sleep } from "node:timers/promises";
import type { Command } from "commander";
import { ConnectionCountSchema, ConnectionService } from "../../../gen/latchkey/v1/connection_pb.ts";
import type { Act } from "../../session.ts";
import { listed } from "../../terminal/option-values.ts";
import { listCommand } from "../command-kinds.ts";
import { stateText, stateTone } from "./states.ts";

interface CountOptions {
  readonly integration?: readonly string[];
}

const askAgainMs = 500;

/** Adds `connections count`. */
export function addCount(group: Command, act: Act): void {
  const count = group
    .command("count")
    .summary("count the connections of an environment by integration and state")
    .option("--integration <key>", "only connections of this integration; repeatable", listed);
  listCommand(count, act, {
    schema: ConnectionCountSchema,
    none: "no connections",
    async rpc({ client, environment, terminal }, _page, { integration = [] }: CountOptions) {
      for (;;) {
        const request = { environment, integrations: [...integration] };
        const response = await client(ConnectionService).countConnections(request);
        // A large store is read once; until then the counts are too low.
        if (response.isComplete) return { counts: response.counts, nextPageToken: "" };
        await sleep(askAgainMs, undefined, { signal: terminal.signal });
      }
    },
    items: ({ counts }) => counts,
    columns: [
      { title: "INTEGRATION", text: ({ integration }) => integration },
      { title: "STATE", text: stateText, tone: stateTone },
      { title: "COUNT", text: (one) => one.count.toLocaleString("en-US") },
    ],
  });
}
