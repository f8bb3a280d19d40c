import type { Webhooks } from "../../broker/webhooks/webhooks.ts";
import type { Route } from "../server/routes.ts";

interface WebhookRoutesOptions {
  readonly webhooks: Pick<Webhooks, "receive" | "requireReceiver">;
  /** As providers reach us. */
  readonly publicUrl: () => string;
}

/** Where providers tell what has happened. Nobody is asked for a key: the address says whose it is, a signature the rest. */
export const webhookRoutes = ({ webhooks, publicUrl }: WebhookRoutesOptions): Route[] => [
  {
    method: "POST",
    path: "/webhook/:environment/:key",
    scope: undefined,
    isPublic: true,
    takesBody: "raw",
    // Strangers who guess at addresses have none of their bodies read.
    admit: ({ environment = "", key = "" }) => webhooks.requireReceiver(environment, key),
    answer({ params: { environment = "", key = "" }, received, target }) {
      if (received === undefined) throw new Error("a route that takes a body as it came is given it");
      // Of what stands before the path only its owner knows: a proxy in front of us may have taken some of it away.
      const url = `${publicUrl()}${target}`;
      return webhooks.receive({ environmentId: environment, integration: key, received, method: "POST", url });
    },
  },
];
