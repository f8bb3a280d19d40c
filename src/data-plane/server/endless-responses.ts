import type { LiveMember, LiveSet } from "../../base/live-set.ts";

/** A response without an end of its own. */
export class EndlessResponse implements LiveMember {
  place = -1;
  readonly #response: { destroy(): unknown };

  constructor(response: { destroy(): unknown }) {
    this.#response = response;
  }

  /** Cuts the response, so that it does not look complete. */
  destroy(): void {
    this.#response.destroy();
  }
}

/** The open responses that are cut when the process stops. */
export type EndlessResponses = LiveSet<EndlessResponse>;
