import { hash } from "node:crypto";
import { create } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { Fault } from "../../base/fault.ts";
import type { World } from "../../base/world.ts";
import { StoredDestinationSchema } from "../../gen/latchkey/stored/v1/stored_pb.ts";
import type { Store } from "../../store/contract.ts";
import { transact } from "../../store/records.ts";
import type { Audit } from "../audit/audit.ts";
import type { WebhookCollections } from "./webhook-collections.ts";

/** Pauses and resumes URLs. */
export interface DestinationPauses {
  /** Pauses a URL; does nothing if it is already paused. */
  pause(at: DestinationUrl, reason: string): Promise<void>;
  /** Pauses a URL on request. A later request replaces the note of an earlier one. */
  pauseFor(at: DestinationUrl, request: { readonly actor: string; readonly note: string }): Promise<void>;
  resume(at: DestinationUrl, actor: string): Promise<void>;
}

export interface DestinationUrl {
  readonly environment: string;
  readonly url: string;
}

interface DestinationPausesOptions extends Pick<WebhookCollections, "destinations"> {
  readonly store: Store;
  readonly audit: Audit;
  /** Returns an environment's own URLs and its paused URLs. */
  readonly urlsOf: (environment: string) => readonly string[];
  readonly world: World;
}

export function createDestinationPauses(options: DestinationPausesOptions): DestinationPauses {
  const { store, destinations, audit, urlsOf, world } = options;
  return {
    async pause({ environment, url }, reason) {
      await transact(store, async () => {
        const before = await destinations.get(environment, hash("sha256", url));
        if (before !== undefined) return { changes: [], result: undefined };
        const pausedAtMs = timestampFromMs(world.now());
        const after = create(StoredDestinationSchema, { environment, url, pausedReason: reason, pausedAt: pausedAtMs });
        return { changes: destinations.change({ before, after }), result: undefined };
      });
    },
    async pauseFor({ environment, url }, { actor, note }) {
      await transact(store, async () => {
        const before = await destinations.get(environment, hash("sha256", url));
        const after = create(StoredDestinationSchema, {
          environment,
          url,
          pausedReason: "asked",
          pausedAt: before?.value.pausedAt ?? timestampFromMs(world.now()),
          pausedBy: actor,
          pausedNote: note,
        });
        const action = "destination.pause";
        return {
          changes: [
            ...destinations.change({ before, after }),
            ...audit.changes({ actor, action, environment, targets: [hostOf(url)] }),
          ],
          result: undefined,
        };
      });
    },
    async resume({ environment, url }, actor) {
      await transact(store, async () => {
        const before = await destinations.get(environment, hash("sha256", url));
        if (before === undefined) {
          if (urlsOf(environment).includes(url)) return { changes: [], result: undefined };
          throw new Fault("not_found", "unknown destination: no deliveries go to this URL");
        }
        const action = "destination.resume";
        return {
          changes: [
            ...destinations.change({ before, after: undefined }),
            ...audit.changes({ actor, action, environment, targets: [hostOf(url)] }),
          ],
          result: undefined,
        };
      });
    },
  };
}

/** Returns only the host: a path may contain a secret of the application. */
const hostOf = (url: string): string => (URL.canParse(url) ? new URL(url).host : "");
