import { create } from "@bufbuild/protobuf";
import { edgeVersion, isSameVersion } from "../../core/edges/edge-version.ts";
import { EdgeKeySchema } from "../../gen/latchkey/v1/edge_pb.ts";
import { type Key, KeySchema } from "../../gen/latchkey/v1/environment_pb.ts";
import type { Access } from "../setup/access.ts";
import { type EdgeStream, noVersion } from "./edge-stream.ts";
import { Followers } from "./followers.ts";

/** Keys of callers, for the edges that those callers use. */
export interface EdgeKeys {
  /** Answers what a key may do, and follows it from then on. */
  answer(stream: EdgeStream, request: { readonly requestId: bigint; readonly digest: Uint8Array }): Promise<void>;
  /** Follows a key that the edge still has, and sends it if it has changed. */
  resume(stream: EdgeStream, held: { readonly digest: Uint8Array; readonly version: Uint8Array }): void;
  drop(stream: EdgeStream, digest: Uint8Array): void;
  dropAll(stream: EdgeStream): void;
  close(): void;
}

interface EdgeKeysOptions {
  readonly access: Pick<Access, "keyWithDigest" | "listen">;
  /** Resolves when memory has all that was committed before. */
  readonly caughtUp: () => Promise<void> | undefined;
  readonly onPush: () => void;
}

/** Limits the unknown keys that are followed for an edge, in case its callers guess. */
const maxUnknown = 1_000;

interface KeyMessage {
  readonly key: Key;
  readonly version: Uint8Array;
}

const messages = new WeakMap<Key, KeyMessage>();

/** Returns what edges get of a key. Computed once for each change of the key. */
function messageOf(key: Key): KeyMessage {
  const known = messages.get(key);
  if (known !== undefined) return known;
  const { id, environment, scopes, expiresAt, limits } = key;
  const shown = create(KeySchema, {
    id,
    environment,
    scopes,
    ...(expiresAt && { expiresAt }),
    ...(limits && { limits }),
  });
  const made = { key: shown, version: edgeVersion(KeySchema, shown) };
  messages.set(key, made);
  return made;
}

const subjectOf = (digest: string) => `key ${digest}`;

export function createEdgeKeys({ access, caughtUp, onPush }: EdgeKeysOptions): EdgeKeys {
  const followers = new Followers();

  function find({ edge }: EdgeStream, digest: string): KeyMessage | undefined {
    const key = access.keyWithDigest(digest);
    if (key === undefined || key.environment !== edge.environment) return undefined;
    // An older edge would let its callers use everything.
    return key.limits === undefined || edge.appliesLimits ? messageOf(key) : undefined;
  }

  /** Notes that the edge has this version from now on, and returns the message that says so. */
  function told(stream: EdgeStream, digest: string, requestId: bigint) {
    const found = find(stream, digest);
    stream.keys.set(digest, found?.version ?? noVersion);
    if (found !== undefined) stream.keyIds.add(found.key.id);
    const version = found?.version ?? noVersion;
    const bytes = Buffer.from(digest, "hex");
    const value = create(EdgeKeySchema, { requestId, digest: bytes, version, ...(found && { key: found.key }) });
    return { case: "key" as const, value };
  }

  function push(stream: EdgeStream, digest: string): void {
    const now = find(stream, digest)?.version ?? noVersion;
    if (isSameVersion(stream.keys.get(digest) ?? noVersion, now)) return;
    stream.outbox.put(subjectOf(digest), told(stream, digest, 0n));
    onPush();
  }

  const stop = access.listen(() => {
    for (const digest of followers.subjects()) {
      for (const stream of followers.of(digest)) push(stream, digest);
    }
  });

  const mayFollowUnknown = ({ keys, keyIds }: EdgeStream) => keys.size - keyIds.size < maxUnknown;

  function drop(stream: EdgeStream, digest: string): void {
    followers.delete(digest, stream);
    stream.keys.delete(digest);
    stream.outbox.cancel(subjectOf(digest));
  }

  return {
    async answer(stream, { requestId, digest: bytes }) {
      const digest = Buffer.from(bytes).toString("hex");
      // The key may have been created through another replica a moment ago.
      if (access.keyWithDigest(digest) === undefined) await caughtUp();
      const isKnown = find(stream, digest) !== undefined;
      const isFollowed = isKnown || mayFollowUnknown(stream);
      if (isFollowed) followers.add(digest, stream);
      stream.outbox.answer(told(stream, digest, requestId));
      if (!isFollowed) stream.keys.delete(digest);
    },
    resume(stream, { digest: bytes, version }) {
      const digest = Buffer.from(bytes).toString("hex");
      followers.add(digest, stream);
      stream.keys.set(digest, version);
      const found = find(stream, digest);
      if (found !== undefined) stream.keyIds.add(found.key.id);
      push(stream, digest);
    },
    drop: (stream, digest) => drop(stream, Buffer.from(digest).toString("hex")),
    dropAll(stream) {
      for (const digest of [...stream.keys.keys()]) drop(stream, digest);
    },
    close: stop,
  };
}
