import type { Command } from "commander";
import {
  type Connection,
  type Connection_State,
  ConnectionSchema,
  ConnectionService,
  ListConnectionsRequest_Order,
} from "../../../gen/latchkey/v1/connection_pb.ts";
import type { Act } from "../../session.ts";
import { listed, paired } from "../../terminal/option-values.ts";
import { listCommand } from "../command-kinds.ts";
import { nameOf } from "./names.ts";
import { stateNames, statesNamed, stateText, stateTone } from "./states.ts";

interface ConnectionListOptions {
  readonly integration?: readonly string[];
  readonly tag?: Readonly<Record<string, string>>;
  readonly search?: string;
  readonly id?: string;
  readonly idPrefix?: string;
  readonly state?: readonly Connection_State[];
  readonly reason?: readonly string[];
  readonly newest?: true;
}

/** Adds `connections list`. */
export function addList(group: Command, act: Act): void {
  const list = group
    .command("list")
    .summary("list the connections of an environment, without credentials")
    .option("--integration <key>", "only connections of this integration; repeatable", listed)
    .option("--tag <key=value>", "only connections with this tag; repeatable, all must match", paired)
    .option("--search <text>", "only connections whose id, or end user's id, email or name, contains this text")
    .option("--id <connection>", "only connections with this id, in any integration")
    .option("--state <state>", `only connections in this state: ${stateNames.join(", ")}; repeatable`, statesNamed)
    .option("--reason <code>", "only connections whose state has this reason, for example revoked; repeatable", listed)
    .option("--id-prefix <text>", "only connections whose id begins with this text")
    .option("--newest", "newest first; not with --id, --id-prefix or --tag");
  listCommand(list, act, {
    schema: ConnectionSchema,
    none: "no connections",
    defaultLimit: 100,
    maxPageSize: 2_000,
    rpc: ({ client, environment }, page, given: ConnectionListOptions) => {
      const { integration = [], tag, search = "", id = "", idPrefix = "", state = [], reason = [], newest } = given;
      const lists = { integrations: [...integration], states: [...state], reasons: [...reason] };
      const filter = { ...lists, tags: { ...tag }, search, id, idPrefix };
      const order = newest === true ? ListConnectionsRequest_Order.NEWEST_FIRST : undefined;
      return client(ConnectionService).listConnections({ environment, filter, ...page, ...(order && { order }) });
    },
    items: ({ connections }) => connections,
    columns: [
      { title: "CONNECTION", text: ({ ref }) => nameOf(ref) },
      { title: "PROVIDER", text: ({ provider }) => provider },
      { title: "STATE", text: stateText, tone: stateTone },
      { title: "TAGS", text: tagsText },
      { title: "CREATED", time: ({ createdAt }) => createdAt },
    ],
  });
}

const tagsText = ({ tags }: Connection): string =>
  Object.entries(tags)
    .map(([key, value]) => `${key}=${value}`)
    .join(",");
