import type { SimulatedProcess } from "./world/time.ts";
import { world } from "./world/world.ts";

export const tokenLifetimeMs = 120_000;

interface IssuedTokens {
  /** The process that got them; undefined: the application, which imported them. */
  readonly by: SimulatedProcess | undefined;
  /** When they were asked for, in true time. */
  readonly sentAt: number;
  /** When they end, by the clock of who asked for them. */
  readonly expiresAtMs: number;
  /** The number of what they were issued for. */
  readonly spent: number | undefined;
}

interface Grant {
  /** By number; the refresh token of each is used once. */
  readonly issued: IssuedTokens[];
  /** When tokens were stored, since the last rollback of the store. */
  readonly stored: Map<IssuedTokens, number>;
}

/** A token is refreshed in the last tenth of its life, and by clocks that run a little too fast. */
const dueShare = 0.89;
/** A process waits at most so long between a look at its clock and its request. */
const decidedWithinMs = 90_000;
/** A silent holder of a lease is replaced after this time at the earliest. */
const silenceMs = 2_900;
/** The refresh's holder tries again once a second, so that less trouble than this must not cost it the lease. */
const leastTroubleMs = 1_500;

/**
 * A provider that rotates refresh tokens, as strict ones do. It takes a spent one again, and says so: that may happen
 * only if the process that spent it died, stopped, or lost the store before it could store the answer.
 */
export class TokenProvider {
  requests = 0;
  /** Requests with a spent token that had a good reason. */
  repeats = 0;
  readonly #grants = new Map<string, Grant>();
  #rolledBackAt = Number.NEGATIVE_INFINITY;

  /** A user has connected. */
  grant(id: string) {
    const expiresAtMs = Math.floor(world.time.trueWallMs()) + tokenLifetimeMs;
    const first = { by: undefined, sentAt: world.time.now, expiresAtMs, spent: undefined };
    this.#grants.set(id, { issued: [first], stored: new Map() });
    return { accessToken: `access-${id}-0`, refreshToken: `refresh-${id}-0`, expiresAtMs };
  }

  /** Answers a token request; undefined: the refresh token is unknown. */
  refresh(refreshToken: string, { by, at: sentAt, wallMs }: SentRequest): object | undefined {
    const [, id = "", number = "0"] = /^refresh-(.+)-(\d+)$/.exec(refreshToken) ?? [];
    const grant = this.#grants.get(id);
    const spent = grant?.issued[Number(number)];
    if (grant === undefined || spent === undefined) return undefined;
    this.requests += 1;
    const before = grant.issued.findLast((one) => one.spent === Number(number));
    const made = { by, sentAt, expiresAtMs: wallMs + tokenLifetimeMs, spent: Number(number) };
    if (before === undefined) this.#checkDue(id, spent, by);
    // The one that was sent first may arrive last.
    else if (before.sentAt < sentAt) this.#checkRepeat(id, before, made);
    else this.#checkRepeat(id, made, before);
    const at = grant.issued.push(made) - 1;
    return {
      access_token: `access-${id}-${at}`,
      refresh_token: `refresh-${id}-${at}`,
      token_type: "bearer",
      expires_in: tokenLifetimeMs / 1_000,
    };
  }

  /** A process has stored new credentials of a connection. */
  noteStored(id: string, by: SimulatedProcess | undefined): void {
    const grant = this.#grants.get(id);
    const last = grant?.issued.findLast((one) => one.by === by);
    if (last !== undefined) grant?.stored.set(last, world.time.now);
  }

  /** The store forgot what was stored last. */
  noteRollback(): void {
    this.#rolledBackAt = world.time.now;
    for (const { stored } of this.#grants.values()) stored.clear();
  }

  /** The access token that must be stored once everything is well; undefined if that cannot be said. */
  newestOf(id: string): string | undefined {
    const issued = this.#grants.get(id)?.issued ?? [];
    const last = issued.at(-1);
    if (last === undefined || last.sentAt < this.#rolledBackAt) return undefined;
    const isRepeated = issued.some((one, at) => issued.findIndex(({ spent }) => spent === one.spent) !== at);
    if (isRepeated || last.by?.state === "dead") return undefined;
    return `access-${id}-${issued.length - 1}`;
  }

  #checkDue(id: string, { by: of, expiresAtMs, sentAt }: IssuedTokens, by: SimulatedProcess): void {
    // Nobody said how long imported tokens live in all: they are refreshed long before.
    if (of === undefined || sentAt < this.#rolledBackAt) return;
    const latest = world.time.latestWallMs(by, decidedWithinMs);
    const earlyMs = expiresAtMs - tokenLifetimeMs * (1 - dueShare) - latest;
    if (earlyMs > 0) world.fail("refreshes", `${by.name} refreshes ${id} ${earlyMs} ms too early by its clock`);
  }

  #checkRepeat(id: string, first: IssuedTokens, second: IssuedTokens): void {
    this.repeats += 1;
    if (first.sentAt < this.#rolledBackAt || first.by === undefined) return;
    const apartMs = second.sentAt - first.sentAt;
    const storedAt = this.#grants.get(id)?.stored.get(first) ?? Number.POSITIVE_INFINITY;
    const wasHindered = world.wasHindered(first.by, first.sentAt, leastTroubleMs);
    if (storedAt > second.sentAt && apartMs > silenceMs && wasHindered) return;
    const who = `${second.by?.name} repeats the request of ${first.by.name} after ${apartMs} ms`;
    const why = storedAt <= second.sentAt ? "its answer was stored" : "nothing kept it from storing the answer";
    world.fail("refreshes", `${who}, and uses the refresh token of ${id} twice: ${why}`);
  }
}

/** A token request: who sent it, when in true time, and what its clock showed then. */
interface SentRequest {
  readonly by: SimulatedProcess;
  readonly at: number;
  readonly wallMs: number;
}
