import type { Socket } from "node:net";
import type { Caller } from "../../../broker/setup/caller.ts";
import type { Address, Binding } from "../../../core/outgoing/binding.ts";
import type { ConnectionRef } from "../../../gen/latchkey/v1/connection_pb.ts";

/** A connection that a caller of the forward proxy names. */
export interface ProxyConnectionName {
  readonly integration: string;
  readonly id: string;
}

interface ForwardTargetParts {
  readonly origin: string;
  readonly authority: string;
  readonly key: string;
  readonly peer?: Socket | undefined;
  readonly named: ProxyConnectionName | undefined;
  readonly alias: ConnectionRef | undefined;
  readonly isTunnel: boolean;
  /** Called once, when the key was found good. */
  readonly onAdmitted?: (target: ForwardTarget) => void;
}

/**
 * Where requests of the forward proxy go, and with which key. Tunnels with equal parts share one object, so that what
 * is found for one request serves the next.
 */
export class ForwardTarget {
  /** `https://host[:port]`. In absolute form `http://host[:port]`, which also means `https` of that host. */
  readonly origin: string;
  /** `host[:port]`, without the default port: what a Host header must say. */
  readonly authority: string;
  /** The caller's key; empty: its connection proves who it is. */
  readonly key: string;
  /** The connection of a caller without a key. Its target is not shared: equal ones may be of other callers. */
  readonly peer: Socket | undefined;
  /** The connection in the proxy's user name. */
  readonly named: ProxyConnectionName | undefined;
  /** The connection of an alias listener. */
  readonly alias: ConnectionRef | undefined;
  /** False for a request in absolute form, outside of a tunnel. */
  readonly isTunnel: boolean;
  #caller: Caller | undefined = undefined;
  #onAdmitted: ForwardTargetParts["onAdmitted"];
  #binding: Binding | undefined = undefined;
  #address: Address | undefined = undefined;

  constructor({ origin, authority, key, peer, named, alias, isTunnel, onAdmitted }: ForwardTargetParts) {
    this.origin = origin;
    this.authority = authority;
    this.key = key;
    this.peer = peer;
    this.named = named;
    this.alias = alias;
    this.isTunnel = isTunnel;
    this.#onAdmitted = onAdmitted;
  }

  /** The caller of the key, as it was last found. */
  get caller(): Caller | undefined {
    return this.#caller;
  }

  /** Notes the caller, whose key is good. */
  admit(caller: Caller): void {
    this.#caller = caller;
    this.#onAdmitted?.(this);
    this.#onAdmitted = undefined;
  }

  /** Returns the target's address within a binding; undefined if the credentials may not be sent there. */
  addressIn(binding: Binding): Address | undefined {
    if (this.#binding !== binding) {
      this.#address = binding.pathWithin(`${this.origin}/`)?.address;
      this.#binding = binding;
    }
    return this.#address;
  }
}
