import type { EdgeIdentity } from "../setup/caller.ts";
import { EdgeOutbox } from "./edge-outbox.ts";

/** Describes an edge: its process and its identity. */
export interface EdgeDescription {
  /** Random ID of its process. */
  readonly id: string;
  readonly host: string;
  readonly version: string;
  readonly environment: string;
  /** The ID of its key, or another name that its identity has. */
  readonly identity: string;
  /** What proves the identity. */
  readonly proof: "key" | EdgeIdentity["kind"];
  /** When the proof ends; undefined: without a known end. */
  readonly proofEndsAtMs: number | undefined;
  /** It refuses what the limits of a key do not include. */
  readonly appliesLimits: boolean;
  /** It refuses tools that limits do not include. */
  readonly appliesTools: boolean;
  /** It refuses what policies refuse. */
  readonly appliesPolicies: boolean;
  /** It needs the authorities of the forward proxy. */
  readonly hasForwardProxy: boolean;
  readonly connectedAtMs: number;
}

/** A connected edge: what it has, by version, and what waits for it. */
export class EdgeStream {
  readonly edge: EdgeDescription;
  readonly outbox = new EdgeOutbox();
  /** Versions of followed connections, by `connectionKey`. Empty: the edge has none, but waits for one. */
  readonly connections = new Map<string, Uint8Array>();
  /** Versions of followed keys, by digest. Empty: there is no such key. */
  readonly keys = new Map<string, Uint8Array>();
  /** Connections whose credentials the edge has: delivered here, or held when it came. */
  readonly delivered = new Set<string>();
  /** IDs of the keys that were sent. */
  readonly keyIds = new Set<string>();
  /** Versions of integrations, by key. */
  readonly integrations = new Map<string, Uint8Array>();
  /** Versions of providers, by name. */
  readonly providers = new Map<string, Uint8Array>();
  /** Names of the followed addresses. */
  readonly routes = new Set<string>();
  /** When a message last came, by the monotonic clock. */
  heardAtMs = performance.now();
  /** When the broker's time was last sent, by the monotonic clock. */
  beatAtMs = performance.now();
  /** Requests that wait for a provider's limit. */
  passes = 0;
  /** Messages are not read now: the edge sent too many at once. */
  isPaused = false;

  constructor(edge: EdgeDescription) {
    this.edge = edge;
  }
}

export const noVersion = new Uint8Array(0);
