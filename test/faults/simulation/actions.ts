import type { MessageInitShape } from "@bufbuild/protobuf";
import { create } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { Fault } from "../../../src/base/fault.ts";
import type { Broker } from "../../../src/broker/broker.ts";
import { Scope } from "../../../src/gen/latchkey/v1/access_pb.ts";
import { ConnectionImportSchema } from "../../../src/gen/latchkey/v1/connection_pb.ts";
import type { CredentialsSchema } from "../../../src/gen/latchkey/v1/credentials_pb.ts";
import { StoreUnavailable } from "../../../src/store/contract.ts";
import type { Books, KnownConnection, Register } from "./books.ts";
import { environment, type RunningBroker } from "./brokers.ts";
import { refOf } from "./edges.ts";
import type { Fleet } from "./fleet.ts";
import { world } from "./world/world.ts";

interface CallersOptions {
  readonly fleet: Fleet;
  readonly books: Books;
  readonly random: () => number;
}

/** The callers of brokers: they write, and note what was acknowledged. */
export class Callers {
  readonly #fleet: Fleet;
  readonly #books: Books;
  readonly #random: () => number;
  #named = 0;

  constructor({ fleet, books, random }: CallersOptions) {
    this.#fleet = fleet;
    this.#books = books;
    this.#random = random;
  }

  pick<T>(all: readonly T[]): T | undefined {
    return all[Math.floor(this.#random() * all.length)];
  }

  connect(): string {
    this.#named += 1;
    const integration = this.#random() < 0.6 ? "tokens" : "keyed";
    const id = `c${this.#named}`;
    const register = this.#books.newRegister("0");
    this.#books.connections.set(`${integration}/${id}`, { integration, id, register });
    return this.#write(id, register, "0", (broker) =>
      broker.imports.importOne(
        create(ConnectionImportSchema, {
          ...{ environment, integration, id, metadata: { n: 0 } },
          credentials: { kind: this.#credentials(integration, id) },
        }),
        "simulation",
      ),
    );
  }

  #credentials(integration: string, id: string): NonNullable<MessageInitShape<typeof CredentialsSchema>["kind"]> {
    if (integration === "keyed") return { case: "apiKey", value: { apiKey: `key-of-${id}` } };
    const { accessToken, refreshToken, expiresAtMs } = this.#fleet.peers.tokens.grant(id);
    return { case: "oauth2", value: { accessToken, refreshToken, expiresAt: timestampFromMs(expiresAtMs) } };
  }

  note(): string {
    const known = this.pick(this.#idleConnections());
    if (known === undefined) return "nothing to note";
    this.#named += 1;
    const n = this.#named;
    return this.#write(known.id, known.register, String(n), (broker) =>
      broker.connections.updateMetadata(
        [{ ref: refOf(known.integration, known.id), metadata: { n }, replace: true, expectedRevision: 0n }],
        "simulation",
      ),
    );
  }

  disconnect(): string {
    const known = this.pick(this.#idleConnections());
    if (known === undefined) return "nothing to disconnect";
    return this.#write(known.id, known.register, "absent", (broker) =>
      broker.connections.delete(
        { ref: refOf(known.integration, known.id), expectedRevision: 0n, keepGrant: true },
        "simulation",
      ),
    );
  }

  makeKey(): string {
    this.#named += 1;
    const id = `k${this.#named}`;
    const register = this.#books.newRegister("live");
    return this.#write(id, register, "live", async (broker) => {
      const { secret } = await broker.access.create(
        { id, environment, scopes: [Scope.PROXY], expiresAtMs: undefined, limits: undefined },
        "simulation",
      );
      this.#books.keys.set(id, { secret, register });
    });
  }

  revokeKey(): string {
    const [id, key] =
      this.pick(
        [...this.#books.keys].filter(([, { register }]) => isSettled(register) && register.acknowledged === "live"),
      ) ?? [];
    if (id === undefined || key === undefined) return "no key to revoke";
    return this.#write(id, key.register, "absent", (broker) =>
      broker.access.revoke({ id, expectedRevision: 0n }, "simulation"),
    );
  }

  rotateKey(): string {
    const [id, key] =
      this.pick(
        [...this.#books.keys].filter(([, { register }]) => isSettled(register) && register.acknowledged === "live"),
      ) ?? [];
    if (id === undefined || key === undefined) return "no key to rotate";
    this.#named += 1;
    const newId = `k${this.#named}`;
    const register = this.#books.newRegister("live");
    return this.#write(id, key.register, "absent", async (broker) => {
      const rotation = { id, newId, overlapMs: 0, expiresAtMs: undefined, expectedRevision: 0n };
      const { secret } = await broker.access.rotate(rotation, "simulation");
      this.#books.keys.set(newId, { secret, register });
      this.#books.end(register, "live", {
        isDone: true,
        revision: world.database.contents.revision,
        at: world.time.now,
      });
    });
  }

  deliver(): string {
    const lane = this.pick(this.#books.lanes.filter(({ isBusy }) => !isBusy));
    const to = this.pick(this.#fleet.ready());
    if (lane === undefined || to === undefined) return "no lane for a webhook";
    const number = lane.next;
    lane.next += 1;
    lane.isBusy = true;
    const { rollbacks } = this.#books;
    this.#call(to, async (broker) => {
      const { webhookId } = await environmentOf(broker);
      await broker.webhooks.receive({
        environmentId: webhookId,
        integration: "calendar",
        method: "POST",
        url: "https://latchkey.example/webhook",
        received: {
          headers: [
            ["content-type", "application/json"],
            ["x-cal-channel-id", lane.name],
            ["x-cal-message-number", String(number)],
          ],
          query: "",
          body: Buffer.from(JSON.stringify({ lane: lane.name, number })),
        },
      });
    }).then((isDone) => {
      lane.isBusy = false;
      if (isDone && rollbacks === this.#books.rollbacks) lane.acknowledged.push(number);
    });
    return `webhook ${number} of ${lane.name} to ${to.name}`;
  }

  #idleConnections(): KnownConnection[] {
    return [...this.#books.connections.values()].filter(
      ({ register }) => register.pending === undefined && register.acknowledged !== "absent",
    );
  }

  #write(name: string, register: Register, value: string, run: (broker: Broker) => Promise<unknown>): string {
    const to = this.pick(this.#fleet.ready());
    if (to === undefined) {
      register.pending = undefined;
      return "no broker for a write";
    }
    this.#books.begin(register, value);
    const { rollbacks } = this.#books;
    this.#call(to, run).then((isAnswered) => {
      const isDone = isAnswered && rollbacks === this.#books.rollbacks;
      this.#books.end(register, value, { isDone, revision: world.database.contents.revision, at: world.time.now });
    });
    return `write ${value} of ${name} by ${to.name}`;
  }

  /** Returns whether the call was answered well; a process that dies answers nothing. */
  #call(to: RunningBroker, run: (broker: Broker) => Promise<unknown>): Promise<boolean> {
    const { process, broker } = to;
    const { promise, resolve } = Promise.withResolvers<boolean>();
    if (broker === undefined) return Promise.resolve(false);
    const settle = (isDone: boolean) => resolve(isDone && process.state !== "dead");
    world.time
      .inside(process, () => run(broker))
      .then(
        () => settle(true),
        (error: unknown) => {
          const isExpected = error instanceof Fault || error instanceof StoreUnavailable;
          if (!isExpected) world.fail(to.name, error);
          settle(false);
        },
      );
    world.time.after(givenUpAfterMs, () => resolve(false));
    return promise;
  }
}

const givenUpAfterMs = 60_000;
const isSettled = ({ pending, tried }: Register): boolean => pending === undefined && tried.size === 0;

async function environmentOf(broker: Broker): Promise<{ readonly webhookId: string }> {
  const { id } = await broker.environments.get(environment);
  return { webhookId: id };
}
