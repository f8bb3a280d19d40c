import type { SendSmallRequest } from "../../base/small-requests.ts";
import type { Broker } from "../../broker/broker.ts";
import type { IdentityProvider } from "../../core/identity-provider.ts";
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
  open(signIn: DashboardSignIn): void;
}

/** What signing in to the dashboard needs. */
export interface DashboardSignIn {
  readonly broker: Broker;
  readonly identityProvider: IdentityProvider | undefined;
  /** Sends requests to the identity provider. */
  readonly send: SendSmallRequest;
}
