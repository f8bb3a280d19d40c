import { Fault } from "../base/fault.ts";
import type { World } from "../base/world.ts";
import type { Live } from "../broker/credentials/live-connections.ts";
import type { ConnectionRef } from "../gen/latchkey/v1/connection_pb.ts";
import type { ConnectionMemory } from "./connection-memory.ts";
import { HeldConnection, NamedHeldConnection } from "./held-connection.ts";
import type { Questions } from "./questions.ts";
import type { Uses } from "./uses.ts";

interface EdgeLiveOptions {
  readonly memory: Pick<ConnectionMemory, "peek" | "faultOf">;
  /** Answers with the connection that the memory made of the broker's message. */
  readonly questions: Pick<Questions<HeldConnection | Fault>, "ask">;
  readonly uses: Pick<Uses, "connection">;
  readonly silence: BrokerSilence;
  readonly world: World;
}

/** What it means that brokers said nothing for a while. */
export interface BrokerSilence {
  /** There is no broker now. */
  isAway(): boolean;
  /** What is in memory may no longer be used: it is about to be forgotten. */
  isTooLong(): boolean;
}

/** Looks up the connection in memory this often, so that a busy connection is not the oldest and forgotten. */
const lookedForEveryMs = 1_000;
const nothing = new Uint8Array();

/** Hands out the connections in memory; asks a broker for others. Refreshes nothing: brokers do. */
export function createEdgeLive({ memory, questions, uses, silence, world }: EdgeLiveOptions): Omit<Live, "close"> {
  const begunAt = world.now();
  const hits = world.metrics.liveLookups.series({ result: "hit" });
  const misses = world.metrics.liveLookups.series({ result: "miss" });

  interface Wish {
    readonly token?: string | undefined;
    readonly refused?: Uint8Array;
  }

  async function ask(ref: ConnectionRef, { token = "", refused = nothing }: Wish): Promise<HeldConnection> {
    const answer = await questions.ask({ kind: "connection", ref, token, refused });
    if (answer instanceof Fault) throw answer;
    return answer;
  }

  const withToken = (held: HeldConnection, token: string | undefined) =>
    token === undefined ? held : held.named(token);

  return {
    peek(ref, before, token) {
      const now = world.now();
      const held = before?.live;
      if (token === undefined && held instanceof HeldConnection && now - begunAt < held.sureUntil) {
        hits.add();
        return held;
      }
      const known = memory.peek(ref);
      const usable = known && withToken(known, token);
      if (known === undefined || usable === undefined || usable.validUntil <= now || silence.isTooLong())
        return undefined;
      hits.add();
      uses.connection(known, now);
      known.sureUntil = Math.min(known.validUntil, now + lookedForEveryMs) - begunAt;
      return usable;
    },
    async get(ref, { forceRefresh = false, token, subject } = {}) {
      if (subject !== undefined) {
        throw new Fault("not_implemented", "an edge does not act on behalf of users: send the request to a broker");
      }
      const known = memory.peek(ref);
      const usable = known && withToken(known, token);
      const isUsable = usable !== undefined && usable.validUntil > world.now() && !silence.isTooLong();
      if (known !== undefined && isUsable && !forceRefresh) {
        hits.add();
        return usable;
      }
      const fault = memory.faultOf(ref);
      if (fault !== undefined) throw fault;
      misses.add();
      const refused = forceRefresh ? known?.parts.version : undefined;
      const asked = await ask(ref, { token, ...(refused !== undefined && { refused }) });
      uses.connection(asked, world.now());
      const found = withToken(asked, token);
      if (found === undefined) throw new Fault("invalid_headers", `the connection has no token "${token}"`);
      return found;
    },
    async replacementOf(refused) {
      const { ref } = refused.connection;
      const base = refused instanceof NamedHeldConnection ? refused.base : refused;
      if (ref === undefined || !(base instanceof HeldConnection)) return undefined;
      const { token } = refused;
      const { version } = base.parts;
      const isOther = (held: HeldConnection) => Buffer.compare(held.parts.version, version) !== 0;
      const known = memory.peek(ref);
      const current = known && isOther(known) ? withToken(known, token) : undefined;
      if (current !== undefined && current.validUntil > world.now()) return current;
      if (token === undefined && !base.parts.state.isRenewable) return undefined;
      // The caller gets the provider's own answer, without a wait for brokers.
      if (silence.isAway()) return undefined;
      try {
        const asked = await ask(ref, { token, refused: version });
        return isOther(asked) ? withToken(asked, token) : undefined;
      } catch (error) {
        // The caller gets the provider's own answer.
        if (error instanceof Fault && error.code === "brokers_unavailable") return undefined;
        throw error;
      }
    },
  };
}
