import type { JsonObject } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { Fault } from "../../../base/fault.ts";
import { suggestion } from "../../../base/similar.ts";
import type { World } from "../../../base/world.ts";
import { checkConnectionConfig } from "../../../core/connection-rules.ts";
import type {
  ChoiceOption,
  Connection,
  ConnectionChoice,
  ConnectionRef,
} from "../../../gen/latchkey/v1/connection_pb.ts";
import type { ChoiceRule } from "../../../gen/latchkey/v1/provider_pb.ts";
import type { Store } from "../../../store/contract.ts";
import { transact } from "../../../store/records.ts";
import type { Audit } from "../../audit/audit.ts";
import { channelChanges } from "../../channels/connection-channel.ts";
import type { ChannelSlots } from "../../channels/slots.ts";
import { type ConnectionCollections, targetOf } from "../../connections/connection-collections.ts";
import { descriptionOfImport } from "../../connections/connection-description.ts";
import type { Connections } from "../../connections/connections.ts";
import type { Live, LiveConnection } from "../../credentials/live-connections.ts";
import { namesValue } from "../../tokens/request-template.ts";
import { type ChoiceLists, withConfig } from "./choice-lists.ts";

/** Lists what can be chosen for a stored connection, and stores choices. */
export interface ConnectionChoices {
  /** `config`: newer values of the connection than those in memory. */
  list(ref: ConnectionRef, config?: JsonObject): Promise<readonly ConnectionChoice[]>;
  /** `options`: IDs or unique labels by the names of choices. Throws `invalid_body` for an option that is not offered. */
  choose(ref: ConnectionRef, options: Readonly<Record<string, string>>, actor: string): Promise<Connection>;
}

interface ConnectionChoicesOptions {
  readonly store: Store;
  readonly collections: Pick<ConnectionCollections, "connections" | "descriptions">;
  readonly connections: Pick<Connections, "get">;
  readonly live: Live;
  readonly lists: ChoiceLists;
  readonly slots: ChannelSlots;
  readonly audit: Audit;
  readonly world: World;
}

interface ChoiceChange {
  readonly set: JsonObject;
  /** Values of choices that depend on a changed one. */
  readonly removed: readonly string[];
}

export function createConnectionChoices(options: ConnectionChoicesOptions): ConnectionChoices {
  const { store, collections, connections, live, lists, slots, audit, world } = options;

  /** Asks once more with refreshed credentials if the provider refuses them. */
  async function listsOf(current: LiveConnection): Promise<readonly ConnectionChoice[]> {
    const found = await lists.of(current);
    if (!found.some(({ problem }) => problem === "status_401")) return found;
    const { connectionConfig = {} } = current.connection;
    const replacement = await live.replacementOf(current);
    return replacement === undefined ? found : lists.of(withConfig(replacement, connectionConfig));
  }

  async function changeOf(current: LiveConnection, wanted: Readonly<Record<string, string>>): Promise<ChoiceChange> {
    const { choices: rules } = current.provider;
    const names = rules.map(({ name }) => name);
    for (const name of Object.keys(wanted)) {
      if (!names.includes(name)) throw notOffered(name, `is not a choice of the provider${suggestion(name, names)}`);
    }
    let set: JsonObject = {};
    const removed: string[] = [];
    for (const rule of rules) {
      const option = wanted[rule.name];
      if (option === undefined) {
        if (dependsOn(rule, set, current.connection)) removed.push(...Object.keys(rule.connectionConfig));
        continue;
      }
      const found = (await listsOf(withConfig(current, set))).find(({ name }) => name === rule.name);
      set = { ...set, ...requireOption(found, rule, option).connectionConfig };
    }
    return { set, removed };
  }

  return {
    async list(ref, config) {
      const current = await live.get(ref);
      return listsOf(config === undefined ? current : withConfig(current, config));
    },
    async choose(ref, wanted, actor) {
      const current = await live.get(ref);
      const { provider, integration: own } = current;
      const { set, removed } = await changeOf(current, wanted);
      const { result, revision } = await transact(store, async () => {
        const before = await connections.get(ref);
        const { environment, integration, id } = ref;
        const kept = Object.entries(before.value.connectionConfig ?? {}).filter(([name]) => !removed.includes(name));
        const connectionConfig: JsonObject = { ...Object.fromEntries(kept), ...set };
        const mistakes = checkConnectionConfig(connectionConfig, []);
        if (mistakes.length > 0) throw new Fault("invalid_body", "the connection is not valid", { mistakes });
        const nowMs = world.now();
        const after = { ...before.value, connectionConfig, updatedAt: timestampFromMs(nowMs) };
        const description = await collections.descriptions.get(environment, integration, id);
        // Details that depend on the choice are asked for in the background.
        const known = { connection: after, given: {}, before: description?.value };
        const next = descriptionOfImport({ ref, provider, ...known, nowMs });
        // A channel of the former choice is replaced, and one that lacked the choice is requested again.
        const channel = { ref, integration: own, provider, isAuthorized: true, isNew: false, nowMs };
        const fields = [...Object.keys(set), ...removed].map((name) => `connection_config.${name}`);
        return {
          changes: [
            ...collections.connections.change({ before, after }),
            ...(next === undefined ? [] : collections.descriptions.change({ before: description, after: next })),
            ...(await channelChanges(slots, channel)),
            ...audit.changes({ actor, action: "connection.choose", environment, targets: [targetOf(ref)], fields }),
          ],
          result: after,
        };
      });
      return { ...result, revision: BigInt(revision) };
    },
  };
}

/** Whether the list of a choice depends on values that change. */
const dependsOn = ({ request }: ChoiceRule, set: JsonObject, { connectionConfig = {} }: Connection): boolean =>
  Object.entries(set).some(([name, value]) => connectionConfig[name] !== value && namesValue(request, name));

function requireOption(found: ConnectionChoice | undefined, { name }: ChoiceRule, option: string): ChoiceOption {
  if (found === undefined || found.problem === "earlier_choice")
    throw notOffered(name, "needs another choice first: make both at once");
  if (found.problem !== "")
    throw new Fault("provider_unreachable", `the provider did not list what can be chosen (${found.problem})`);
  const { options } = found;
  const labeled = options.filter(({ label }) => label === option);
  const chosen = options.find(({ id }) => id === option) ?? (labeled.length === 1 ? labeled[0] : undefined);
  if (chosen !== undefined) return chosen;
  throw notOffered(
    name,
    labeled.length > 1 ? "several options have this label: name one by its id" : "is not among the options",
  );
}

const notOffered = (name: string, message: string) =>
  new Fault("invalid_body", `the choice is not valid: ${name} ${message}`, {
    mistakes: [{ path: ["options", name], message }],
  });
