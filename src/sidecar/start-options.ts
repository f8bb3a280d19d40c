import type { ResolveHost } from "../relay/egress.ts";

/** Options of a start beside its configuration. */
export interface StartOptions {
  /** Resolves the host names of providers; defaults to the system's resolver. */
  readonly resolve?: ResolveHost;
  /**
   * Time after its last sign of life until a refresh may be taken over. Tests set a shorter time than half a minute.
   */
  readonly refreshLeaseMs?: number | undefined;
  /** Time after its last sign of life until another process may take over its work. Tests set a shorter time. */
  readonly workTermMs?: number | undefined;
  /** Aborts the start before it has finished. */
  readonly signal?: AbortSignal;
}
