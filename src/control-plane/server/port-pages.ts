import type { Broker } from "../../broker/broker.ts";
import type { NodeRequest } from "./calls.ts";
import type { NodeResponse } from "./slow-readers.ts";

/** Pages that a port serves besides its calls. */
export interface PortPages {
  /** Returns whether a request is for a page. */
  isPage(request: NodeRequest): boolean;
  /** Returns whether a link on another site may lead there. */
  isOpenToLinks(request: NodeRequest): boolean;
  answer(request: NodeRequest, response: NodeResponse): void;
  /** Lets people sign in from now on. */
  open(broker: Broker): void;
}
