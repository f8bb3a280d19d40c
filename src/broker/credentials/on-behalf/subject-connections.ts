import { Fault } from "../../../base/fault.ts";
import { digestOf } from "../../../base/ids.ts";
import type { World } from "../../../base/world.ts";
import type { ConnectionRef } from "../../../gen/latchkey/v1/connection_pb.ts";
import type { TokenEndpoint } from "../../tokens/token-endpoint.ts";
import type { LiveConnection } from "../live-connections.ts";
import { createAccessTokens, type HeldAccess } from "./access-tokens.ts";
import { type OnBehalfSettings, readSettings } from "./settings.ts";
import { type SubjectCall, SubjectConnection } from "./subject-connection.ts";
import type { SubjectTokens } from "./subject-tokens.ts";

/** Connections whose requests act for the user whose token the caller sends. */
export interface SubjectConnections {
  /** Returns the connection with an access token of the user. Rejects with a Fault. */
  get(base: LiveConnection, subjectToken: string): Promise<LiveConnection>;
  /** The provider has refused the user's access token. Returns the connection with another one; undefined: none. */
  replacementOf(
    refused: SubjectConnection,
    load: (ref: ConnectionRef) => Promise<LiveConnection>,
    subjectToken: string | undefined,
  ): Promise<LiveConnection | undefined>;
}

interface SubjectConnectionsOptions {
  readonly subjects: SubjectTokens;
  readonly endpoint: Pick<TokenEndpoint, "ask">;
  readonly world: World;
}

/** A token that was just exchanged and is refused again is not exchanged again for so long. */
const coolDownMs = 10_000;

export function createSubjectConnections(options: SubjectConnectionsOptions): SubjectConnections {
  const { subjects, endpoint, world } = options;
  const hits = world.metrics.liveLookups.series({ result: "hit" });
  const misses = world.metrics.liveLookups.series({ result: "miss" });
  const settings = new WeakMap<LiveConnection, OnBehalfSettings>();
  const tokens = createAccessTokens({ endpoint, world });

  function settingsOf(base: LiveConnection): OnBehalfSettings {
    const known = settings.get(base);
    if (known !== undefined) return known;
    const made = readSettings(base);
    requireKind(base);
    settings.set(base, made);
    return made;
  }

  async function callOf(base: LiveConnection, subjectToken: string): Promise<SubjectCall> {
    const found = settingsOf(base);
    const subject = await subjects.verify(subjectToken, found);
    return { key: digestOf(found.fingerprint + subject.identity), base, settings: found, subject, subjectToken };
  }

  return {
    async get(base, subjectToken) {
      const call = await callOf(base, subjectToken);
      const access = tokens.known(call.key);
      (access === undefined ? misses : hits).add();
      return liveOf(access ?? (await tokens.obtain(call)), call);
    },
    async replacementOf(refused, load, subjectToken) {
      const { ref } = refused.connection;
      if (ref === undefined || subjectToken === undefined) return undefined;
      const call = await callOf(await load(ref), subjectToken);
      const { key } = call;
      const access = tokens.known(key);
      if (access !== undefined) {
        if (access.token.accessToken !== refused.accessToken) return liveOf(access, call);
        if (access.isReplacement && world.now() - access.obtainedAtMs < coolDownMs) return undefined;
        tokens.drop(key);
      }
      const fresh = await tokens.obtain(call, { isReplacement: true });
      return fresh.token.accessToken === refused.accessToken ? undefined : liveOf(fresh, call);
    },
  };
}

/** Returns the connection with the token. The connection or its integration may have changed since the exchange. */
function liveOf(access: HeldAccess, call: SubjectCall): SubjectConnection {
  if (access.live.base === call.base) return access.live;
  access.live.slot.leave();
  access.live = new SubjectConnection(call, access.token);
  return access.live;
}

function requireKind({ credentials }: LiveConnection): void {
  if (credentials.kind.case === "onBehalf") return;
  const message = "the connection has credentials of another kind than its provider takes; import it again";
  throw new Fault("connection_unusable", message);
}
