import { Fault } from "../../base/fault.ts";
import type { ConnectionRef } from "../../gen/latchkey/v1/connection_pb.ts";
import type { Backend } from "../../store/contract.ts";
import { partsOf } from "../../store/keys.ts";
import type { Channels } from "../channels/channels.ts";
import type { Integrations } from "../setup/integrations.ts";
import type { ScriptHooks } from "../syncs/script-hooks.ts";
import { spanOf } from "./companions.ts";
import { allKeys, type StoredKey, spanAround } from "./emptied-page.ts";

/** Runs the deletion hooks and stops the channels of the connections that have any, while their credentials exist. */
export type SayGoodbye = (page: readonly StoredKey[]) => Promise<void>;

interface GoodbyeOptions {
  readonly keys: Backend["keys"];
  readonly integrations: Integrations;
  readonly hooks: ScriptHooks;
  readonly channels: Channels;
}

/** Connections whose hooks and channels are waited for at the same time. */
const atOnce = 16;

export function createSayGoodbye({ keys, integrations, hooks, channels }: GoodbyeOptions): SayGoodbye {
  /** Returns the connections of one integration that have hooks or channels. */
  async function awaitedIn(group: readonly StoredKey[]): Promise<readonly ConnectionRef[]> {
    const span = spanAround(group);
    if (span === undefined) return [];
    const { environment, integration } = span;
    const { value } = await integrations.get({ environment, key: integration });
    // With automatic channels, a script may have named one in the metadata of any connection.
    const isForAll = hooks.hasDeletionHooks(integration) || value.channels?.automatic === true;
    const slots = await allKeys(keys, spanOf(["channel.slot"], span));
    const withChannels = new Set(slots.map(({ key }) => partsOf(key)[3]));
    if (!isForAll && withChannels.size === 0) return [];
    const ids = group.map(({ key }) => partsOf(key)[3] ?? "").filter((id) => isForAll || withChannels.has(id));
    return ids.map((id) => ({ $typeName: "latchkey.v1.ConnectionRef", environment, integration, id }));
  }

  async function part(ref: ConnectionRef): Promise<void> {
    try {
      await hooks.beforeDeletion(ref);
    } catch (error) {
      // Deleted by another call.
      if (!(error instanceof Fault && error.code === "unknown_connection")) throw error;
    }
    await channels.stopAllOf(ref);
  }

  return async (page) => {
    const groups = Map.groupBy(page, ({ key }) => partsOf(key)[2]);
    const awaited = (await Promise.all([...groups.values()].map(awaitedIn))).flat();
    for (let at = 0; at < awaited.length; at += atOnce) {
      await Promise.all(awaited.slice(at, at + atOnce).map(part));
    }
  };
}
