import { digestOf } from "../base/ids.ts";
import type { World } from "../base/world.ts";
import type { Authentication } from "../broker/setup/authentication.ts";
import type { Caller } from "../broker/setup/caller.ts";
import type { EdgeFault } from "../gen/latchkey/v1/edge_pb.ts";
import { faultOf } from "./broker-fault.ts";
import type { BrokerSilence } from "./edge-live.ts";
import { type KeyMemory, type KnownCaller, unknownKey } from "./key-memory.ts";
import type { Questions } from "./questions.ts";
import type { Uses } from "./uses.ts";

interface EdgeAccessOptions {
  readonly keys: KeyMemory;
  /** Resolves once the memory has the answer, or to why there is none. */
  readonly questions: Pick<Questions<EdgeFault | undefined>, "ask">;
  readonly uses: Pick<Uses, "key">;
  readonly silence: Pick<BrokerSilence, "isTooLong">;
  readonly world: World;
}

export type EdgeKeyAccess = Pick<Authentication, "authenticate" | "callerOfPeer" | "isCurrent" | "currentCaller">;

/** Authenticates callers by the keys in memory; asks a broker about others. */
export function createEdgeAccess(options: EdgeAccessOptions): EdgeKeyAccess {
  const { keys, questions, uses, silence, world } = options;

  function callerOf(held: KnownCaller | undefined): Caller {
    if (held === undefined) throw unknownKey();
    const now = world.now();
    if (held.expiresAtMs <= now) throw unknownKey("the key has expired");
    uses.key(held, now);
    return held.caller;
  }

  return {
    authenticate(secret) {
      const digest = digestOf(secret);
      const held = keys.peek(digest);
      if ((held !== undefined && !silence.isTooLong()) || keys.isUnknown(digest)) return callerOf(held);
      const question = { kind: "key", digest: Buffer.from(digest, "hex") } as const;
      return questions.ask(question).then((fault) => {
        if (fault !== undefined) throw faultOf(fault);
        return callerOf(keys.peek(digest));
      });
    },
    callerOfPeer: () => undefined,
    isCurrent(caller) {
      const held = keys.ofCaller(caller);
      const now = world.now();
      if (held === undefined || held.expiresAtMs <= now || silence.isTooLong()) return false;
      uses.key(held, now);
      return true;
    },
    currentCaller(caller) {
      const digest = keys.digestOf(caller);
      if (digest === undefined || silence.isTooLong()) return undefined;
      const held = keys.peek(digest);
      if (held !== undefined) return held.expiresAtMs > world.now() ? held.caller : undefined;
      if (keys.isUnknown(digest)) return undefined;
      // Memory had no room for the key: a broker knows, and says so before the next look.
      questions.ask({ kind: "key", digest: Buffer.from(digest, "hex") }).catch(ignore);
      return caller;
    },
  };
}

/** Without a broker, callers keep what they have until the silence is too long. */
const ignore = () => {};
