import type { NodeRequest } from "./calls.ts";
import type { NodeResponse } from "./slow-readers.ts";

/** Pages that a port serves besides its calls. */
export interface PortPages {
  /** Returns whether a request is for a page. */
  isPage(request: NodeRequest): boolean;
  answer(request: NodeRequest, response: NodeResponse): void;
}
