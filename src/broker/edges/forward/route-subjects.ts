import type { EdgeRoutes, RouteSubject } from "../../../gen/latchkey/v1/edge_pb.ts";
import { integrationKey } from "../../connections/integration-name.ts";
import type { EdgeStream } from "../edge-stream.ts";

/** What is read of an address. */
export interface ReadRoutes {
  readonly message: EdgeRoutes;
  /** Integrations whose connections all have the address, whatever their settings are. */
  readonly fixed: ReadonlySet<string>;
}

/** An address that edges of an environment follow. */
export interface FollowedSubject {
  readonly key: string;
  /** Tells it from others of its environment. */
  readonly name: string;
  readonly environment: string;
  readonly subject: RouteSubject;
  readonly streams: Set<EdgeStream>;
  /** Counts the changes: what was read before the last one may be old. */
  changes: number;
  known: ReadRoutes | undefined;
}

export function subjectName({ subject }: RouteSubject): string {
  return `${subject.case ?? ""} ${subject.value ?? ""}`;
}

const keyOf = (environment: string, name: string) => `${environment}\0${name}`;

/** All addresses that edges of this broker follow. */
export class FollowedSubjects {
  readonly #byKey = new Map<string, FollowedSubject>();
  readonly #byEnvironment = new Map<string, Set<FollowedSubject>>();
  readonly #byIntegration = new Map<string, Set<FollowedSubject>>();
  /** Nothing was read of them yet, so that any change may concern them. */
  readonly #unread = new Set<FollowedSubject>();

  follow(stream: EdgeStream, subject: RouteSubject): FollowedSubject {
    const { environment } = stream.edge;
    const name = subjectName(subject);
    const key = keyOf(environment, name);
    const known = this.#byKey.get(key);
    const one: FollowedSubject = known ?? {
      key,
      name,
      environment,
      subject,
      streams: new Set(),
      changes: 0,
      known: undefined,
    };
    if (known === undefined) {
      this.#byKey.set(key, one);
      addTo(this.#byEnvironment, environment, one);
      this.#unread.add(one);
    }
    one.streams.add(stream);
    stream.routes.add(name);
    return one;
  }

  unfollow(stream: EdgeStream, name: string): void {
    stream.routes.delete(name);
    const { environment } = stream.edge;
    const one = this.#byKey.get(keyOf(environment, name));
    if (one?.streams.delete(stream) !== true || one.streams.size > 0) return;
    this.#byKey.delete(one.key);
    this.#unread.delete(one);
    removeFrom(this.#byEnvironment, environment, one);
    for (const place of placesOf(one)) removeFrom(this.#byIntegration, place, one);
  }

  /** Keeps what was read, unless the address is no longer followed. */
  note(one: FollowedSubject, found: ReadRoutes): void {
    if (this.#byKey.get(one.key) !== one) return;
    for (const place of placesOf(one)) removeFrom(this.#byIntegration, place, one);
    one.known = found;
    this.#unread.delete(one);
    for (const place of placesOf(one)) addTo(this.#byIntegration, place, one);
  }

  /** Returns the addresses that a connection of this integration may concern. */
  *ofIntegration(environment: string, integration: string): Iterable<FollowedSubject> {
    yield* this.#byIntegration.get(integrationKey({ environment, integration })) ?? [];
    for (const one of this.#unread) if (one.environment === environment) yield one;
  }

  ofEnvironment(environment: string): Iterable<FollowedSubject> {
    return this.#byEnvironment.get(environment) ?? [];
  }

  all(): Iterable<FollowedSubject> {
    return this.#byKey.values();
  }
}

const placesOf = ({ environment, known }: FollowedSubject): readonly string[] =>
  (known?.message.routes ?? []).map(({ integration }) => integrationKey({ environment, integration }));

function addTo(index: Map<string, Set<FollowedSubject>>, place: string, one: FollowedSubject): void {
  const all = index.get(place);
  if (all === undefined) index.set(place, new Set([one]));
  else all.add(one);
}

function removeFrom(index: Map<string, Set<FollowedSubject>>, place: string, one: FollowedSubject): void {
  const all = index.get(place);
  if (all?.delete(one) === true && all.size === 0) index.delete(place);
}
