import type { RequestSubject } from "../../broker/traffic/request-ring.ts";
import type { IntegrationCount } from "../../broker/traffic/traffic-counts.ts";

/** What the notes of all requests of a connection share. */
export interface ConnectionNotes {
  readonly count: IntegrationCount;
  readonly ref: RequestSubject;
  /** A path that is shorter holds no credentials. */
  readonly shortestSecret: number;
}
