import { createHash, randomUUID } from "node:crypto";
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { onTestFinished } from "vitest";
import { Scope } from "../../../src/gen/latchkey/v1/access_pb.ts";
import {
  type EdgeConnection,
  type EdgeKey,
  EdgeService,
  type FollowRequest,
  FollowRequestSchema,
  type FollowResponse,
} from "../../../src/gen/latchkey/v1/edge_pb.ts";
import { EnvironmentService } from "../../../src/gen/latchkey/v1/environment_pb.ts";
import type { TestSidecar } from "../../support/sidecar/harness.ts";

type Message = NonNullable<MessageInitShape<typeof FollowRequestSchema>["message"]>;
type Case = NonNullable<FollowResponse["message"]["case"]>;
type ValueOf<C extends Case> = Extract<FollowResponse["message"], { case: C }>["value"];

/** A stream to a broker, as an edge opens it: what it sends is up to the test. */
export interface EdgeStream {
  send(message: Message): void;
  /** Resolves to the next message of this kind, after those that were returned before. */
  next<C extends Case>(kind: C, isWanted?: (value: ValueOf<C>) => boolean): Promise<ValueOf<C>>;
  /** All messages so far. */
  readonly received: readonly FollowResponse[];
  /** Resolves when the stream is over, to its error if there was one. */
  readonly ended: Promise<unknown>;
  /** Asks for a connection and resolves to the answer. */
  want(
    integration: string,
    id: string,
    more?: { refusedVersion?: Uint8Array; token?: string },
  ): Promise<EdgeConnection>;
  wantKey(secret: string): Promise<EdgeKey>;
  leave(): void;
}

/** A key for edges of the environment `dev`. */
export async function edgeKey({ client }: TestSidecar, environment = "dev"): Promise<{ id: string; secret: string }> {
  const { key, secret } = await client(EnvironmentService).createKey({ environment, scopes: [Scope.EDGE] });
  return { id: key?.id ?? "", secret };
}

type Hello = Extract<Message, { case: "hello" }>["value"];

export function openEdge({ client }: TestSidecar, key: string, hello?: Hello | null): EdgeStream {
  const outgoing: FollowRequest[] = [];
  const received: FollowResponse[] = [];
  const abort = new AbortController();
  let wake = () => {};
  let isLeaving = false;
  let requests = 0n;
  const waiting = new Set<() => void>();
  const taken = new Set<FollowResponse>();

  async function* sent() {
    for (;;) {
      const next = outgoing.shift();
      if (next !== undefined) yield next;
      else if (isLeaving) return;
      else
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
    }
  }

  async function receive(): Promise<unknown> {
    try {
      for await (const message of client(EdgeService, key).follow(sent(), { signal: abort.signal })) {
        received.push(message);
        for (const look of waiting) look();
      }
      return undefined;
    } catch (error) {
      return error;
    } finally {
      for (const look of waiting) look();
    }
  }

  const send = (message: Message) => {
    outgoing.push(create(FollowRequestSchema, { message }));
    wake();
  };
  if (hello !== null) send({ case: "hello", value: { edgeId: randomUUID(), host: "pod-1", version: "1", ...hello } });
  let isOver = false;
  const ended = receive().then((error) => {
    isOver = true;
    for (const look of waiting) look();
    return error;
  });

  function next<C extends Case>(kind: C, isWanted: (value: ValueOf<C>) => boolean = () => true) {
    return new Promise<ValueOf<C>>((resolve, reject) => {
      const look = () => {
        const found = received.find(
          (one) => one.message.case === kind && !taken.has(one) && isWanted(one.message.value as ValueOf<C>),
        );
        if (found === undefined && !isOver) return;
        waiting.delete(look);
        if (found === undefined) reject(new Error(`the stream ended before ${kind} came`));
        else {
          taken.add(found);
          (resolve as (value: ValueOf<C>) => void)(found.message.value as ValueOf<C>);
        }
      };
      waiting.add(look);
      look();
    });
  }

  const edge: EdgeStream = {
    send,
    next,
    received,
    ended,
    want(integration, id, more = {}) {
      requests += 1n;
      const requestId = requests;
      send({ case: "wantConnection", value: { requestId, ref: { integration, id }, ...more } });
      return next("connection", (one) => one.requestId === requestId);
    },
    wantKey(secret) {
      requests += 1n;
      const requestId = requests;
      send({ case: "wantKey", value: { requestId, digest: digestOf(secret) } });
      return next("key", (one) => one.requestId === requestId);
    },
    leave() {
      isLeaving = true;
      wake();
    },
  };
  onTestFinished(() => abort.abort());
  return edge;
}

export const digestOf = (secret: string): Uint8Array => createHash("sha256").update(secret).digest();
