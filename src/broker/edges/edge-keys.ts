import { create } from "@bufbuild/protobuf";
import { isSameVersion } from "../../core/edges/edge-version.ts";
import { EdgeKeySchema } from "../../gen/latchkey/v1/edge_pb.ts";
import type { SessionCallers } from "../access-sessions/session-callers.ts";
import type { Access } from "../setup/access.ts";
import { type EdgeCallerMessage, edgeCallerWith } from "./edge-callers.ts";
import { edgeFaultOf } from "./edge-fault.ts";
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
  readonly keys: Pick<Access, "keyWithDigest" | "listen">;
  readonly sessions: Pick<SessionCallers, "callerWithDigest" | "listen">;
  /** Resolves when memory has all that was committed before. */
  readonly caughtUp: () => Promise<void> | undefined;
  readonly onPush: () => void;
}

/** Limits the unknown keys that are followed for an edge, in case its callers guess. */
const maxUnknown = 1_000;

/** The ID of a session is the first half of the hash of its token. */
const sessionIdLength = 32;

/** Notes what the edge knows, for counting, and whose use it may report. */
function noteId({ keyIds }: EdgeStream, found: EdgeCallerMessage | undefined): void {
  if (found !== undefined) keyIds.add(found.id).add(found.keyId);
}

const subjectOf = (digest: string) => `key ${digest}`;

/** Returns why memory may lack what was committed before. One question must not end the stream of a whole edge. */
async function troubleOf(caughtUp: EdgeKeysOptions["caughtUp"]): Promise<unknown> {
  try {
    await caughtUp();
    return undefined;
  } catch (error) {
    return error;
  }
}

export function createEdgeKeys({ keys, sessions, caughtUp, onPush }: EdgeKeysOptions): EdgeKeys {
  const followers = new Followers();

  const find = ({ edge }: EdgeStream, digest: string) => edgeCallerWith({ keys, sessions }, edge, digest);

  /** Notes that the edge has this version from now on, and returns the message that says so. */
  function told(stream: EdgeStream, digest: string, requestId: bigint) {
    const found = find(stream, digest);
    stream.keys.set(digest, found?.version ?? noVersion);
    noteId(stream, found);
    const version = found?.version ?? noVersion;
    const value = create(EdgeKeySchema, {
      requestId,
      digest: Buffer.from(digest, "hex"),
      version,
      ...(found?.key && { key: found.key }),
      ...(found?.session && { session: found.session }),
    });
    return { case: "key" as const, value };
  }

  function push(stream: EdgeStream, digest: string): void {
    const now = find(stream, digest)?.version ?? noVersion;
    if (isSameVersion(stream.keys.get(digest) ?? noVersion, now)) return;
    stream.outbox.put(subjectOf(digest), told(stream, digest, 0n));
    onPush();
  }

  function pushAll(isMeant: (digest: string) => boolean): void {
    for (const digest of followers.subjects()) {
      if (isMeant(digest)) for (const stream of followers.of(digest)) push(stream, digest);
    }
  }

  // A session ends with its key.
  const stopKeys = keys.listen(() => pushAll(() => true));
  const stopSessions = sessions.listen((ids) => {
    const changed = new Set(ids);
    pushAll((digest) => changed.has(digest.slice(0, sessionIdLength)));
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
      const trouble = find(stream, digest) === undefined ? await troubleOf(caughtUp) : undefined;
      // An edge that has the key and asks only to follow it is told that there is none, and asks again.
      if (trouble !== undefined && requestId !== 0n && find(stream, digest) === undefined) {
        const value = create(EdgeKeySchema, { requestId, digest: bytes, fault: edgeFaultOf(trouble) });
        stream.outbox.answer({ case: "key", value });
        return;
      }
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
      noteId(stream, find(stream, digest));
      push(stream, digest);
    },
    drop: (stream, digest) => drop(stream, Buffer.from(digest).toString("hex")),
    dropAll(stream) {
      for (const digest of [...stream.keys.keys()]) drop(stream, digest);
    },
    close() {
      stopKeys();
      stopSessions();
    },
  };
}
