import type { Contents } from "./world/contents.ts";

/** What is known of something stored that only this program changes, one change at a time. */
export interface Register {
  /** The last value that was acknowledged. */
  acknowledged: string;
  /** Revision of the store when it was acknowledged; true time of it. */
  revision: number;
  at: number;
  /** Values of later changes whose outcome is not known. */
  readonly tried: Set<string>;
  pending: string | undefined;
}

export interface KnownKey {
  readonly secret: string;
  readonly register: Register;
}

export interface KnownConnection {
  readonly integration: string;
  readonly id: string;
  readonly register: Register;
}

export interface Lane {
  readonly name: string;
  next: number;
  isBusy: boolean;
  /** Numbers of acknowledged webhooks, in order. */
  acknowledged: number[];
}

/** A standby that lags: its contents, and what was acknowledged when it had them. */
export interface Checkpoint {
  readonly contents: Contents;
  readonly at: number;
  readonly registers: ReadonlyMap<Register, Omit<Register, "tried"> & { readonly tried: ReadonlySet<string> }>;
  readonly lanes: ReadonlyMap<Lane, readonly number[]>;
}

/** What callers know. */
export class Books {
  readonly keys = new Map<string, KnownKey>();
  readonly connections = new Map<string, KnownConnection>();
  readonly lanes: Lane[] = [];
  acknowledged = 0;
  failed = 0;
  /** How often the store was rolled back: what was begun before counts for nothing after. */
  rollbacks = 0;

  readonly #registers = new Set<Register>();

  /** Makes one of something that is on its way: a standby may have it before its caller is answered. */
  newRegister(pending: string): Register {
    const made = { acknowledged: "absent", revision: 0, at: 0, tried: new Set<string>(), pending };
    this.#registers.add(made);
    return made;
  }

  registers(): Register[] {
    return [...this.#registers];
  }

  /** Forgets what is gone; called while nothing is on its way. */
  forgetAbsent(): void {
    for (const [id, { register }] of this.keys) if (register.acknowledged === "absent") this.keys.delete(id);
    for (const [id, { register }] of this.connections)
      if (register.acknowledged === "absent") this.connections.delete(id);
    const known = [...this.keys.values(), ...this.connections.values()].map(({ register }) => register);
    this.#registers.clear();
    for (const register of known) this.#registers.add(register);
  }

  begin(register: Register, value: string): void {
    register.pending = value;
  }

  end(
    register: Register,
    value: string,
    outcome: { readonly isDone: boolean; readonly revision: number; at: number },
  ): void {
    register.pending = undefined;
    if (!outcome.isDone) {
      this.failed += 1;
      register.tried.add(value);
      return;
    }
    this.acknowledged += 1;
    register.acknowledged = value;
    register.revision = outcome.revision;
    register.at = outcome.at;
    register.tried.clear();
  }

  checkpoint(contents: Contents, at: number): Checkpoint {
    const registers = new Map(this.registers().map((one) => [one, { ...one, tried: new Set(one.tried) }] as const));
    return { contents, at, registers, lanes: new Map(this.lanes.map((lane) => [lane, [...lane.acknowledged]])) };
  }

  /** The store is what it was at the checkpoint. */
  rollBack({ registers, lanes }: Checkpoint): void {
    this.rollbacks += 1;
    for (const register of this.registers()) {
      const then = registers.get(register);
      register.tried.clear();
      for (const value of then?.tried ?? []) register.tried.add(value);
      // It was on its way then, or is now.
      for (const value of [then?.pending, register.pending]) if (value !== undefined) register.tried.add(value);
      register.acknowledged = then?.acknowledged ?? "absent";
      register.revision = then?.revision ?? 0;
      register.at = Number.POSITIVE_INFINITY;
    }
    for (const lane of this.lanes) lane.acknowledged = [...(lanes.get(lane) ?? [])];
  }
}

/** Whether a stored value is one that callers may expect. */
export const isExpected = ({ acknowledged, tried }: Register, stored: string): boolean =>
  stored === acknowledged || tried.has(stored);
