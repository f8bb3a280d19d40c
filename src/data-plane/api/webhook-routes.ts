import type { Webhooks } from "../../broker/webhooks/webhooks.ts";
import type { Route } from "../server/routes.ts";

interface WebhookRoutesOptions {
  readonly webhooks: Pick<Webhooks, "receive" | "requireReceiver">;
  /** The URL under which providers reach Latchkey. */
  readonly publicUrl: () => string;
}

/**
 * Routes for providers' webhooks. No key is needed: the address names the integration, and a signature proves the
 * sender. Providers verify the address by GET or HEAD.
 */
export const webhookRoutes = ({ webhooks, publicUrl }: WebhookRoutesOptions): Route[] =>
  (["POST", "GET"] as const).map((method) => ({
    method,
    path: "/webhook/:environment/:key",
    scope: undefined,
    isPublic: true,
    takesBody: "raw",
    // Bodies sent to guessed addresses are not read.
    admit: ({ environment = "", key = "" }) => webhooks.requireReceiver(environment, key),
    answer({ method: of, params: { environment = "", key = "" }, received, target }) {
      if (received === undefined) throw new Error("a route that takes a body as it came is given it");
      // Only the operator knows the part before the path: a reverse proxy may have removed some of it.
      const url = `${publicUrl()}${target}`;
      return webhooks.receive({ environmentId: environment, integration: key, received, method: of, url });
    },
  }));
