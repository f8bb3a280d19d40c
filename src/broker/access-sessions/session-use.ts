import { hostname } from "node:os";
import { create } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { LRUCache } from "lru-cache";
import type { World } from "../../base/world.ts";
import {
  AccessSessionToolUseSchema,
  type AccessSessionUse,
  AccessSessionUseSchema,
} from "../../gen/latchkey/v1/access_session_pb.ts";
import type { CalledToolName, CallerUse } from "../setup/caller.ts";

const maxTools = 20;
/** Names are the caller's. */
const maxNameLength = 128;

interface ToolCount extends CalledToolName {
  calls: number;
  refused: number;
  lastMs: number;
}

/** Counts the requests of a session on this replica, for as long as the session stays in memory. */
export class SessionUse implements CallerUse {
  readonly #world: Pick<World, "now">;
  #requests = 0;
  #refused = 0;
  #lastUsedMs = 0;
  #seenMs = 0;
  /** Most sessions call no tool. */
  #tools: LRUCache<string, ToolCount> | undefined;

  constructor(world: Pick<World, "now">) {
    this.#world = world;
  }

  /** Time of the last request, also of one that was refused. 0: there was none. */
  get seenMs(): number {
    return this.#seenMs;
  }

  noteRequest(): void {
    this.#requests += 1;
    this.#lastUsedMs = this.#world.now();
    this.#seenMs = this.#lastUsedMs;
  }

  noteRefusal(): void {
    this.#refused += 1;
    this.#seenMs = this.#world.now();
  }

  noteTool({ integration, tool: whole }: CalledToolName, isRefused: boolean): void {
    const tool = whole.slice(0, maxNameLength);
    this.#tools ??= new LRUCache({ max: maxTools });
    const key = `${integration}\0${tool}`;
    const count = this.#tools.get(key) ?? { integration, tool, calls: 0, refused: 0, lastMs: 0 };
    if (isRefused) count.refused += 1;
    else count.calls += 1;
    count.lastMs = this.#world.now();
    this.#tools.set(key, count);
  }

  /** Returns the counts; undefined if there was no request. */
  shown(): AccessSessionUse | undefined {
    if (this.#seenMs === 0) return undefined;
    const tools = [...(this.#tools?.values() ?? [])].map(({ integration, tool, calls, refused, lastMs }) =>
      create(AccessSessionToolUseSchema, {
        integration,
        tool,
        calls: BigInt(calls),
        refused: BigInt(refused),
        lastCalledAt: timestampFromMs(lastMs),
      }),
    );
    return create(AccessSessionUseSchema, {
      replica: hostname(),
      requests: BigInt(this.#requests),
      refused: BigInt(this.#refused),
      tools,
      ...(this.#lastUsedMs > 0 && { lastUsedAt: timestampFromMs(this.#lastUsedMs) }),
    });
  }
}
