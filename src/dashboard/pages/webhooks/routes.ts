import type { PageRoute } from "../../state/page-route.ts";

export const webhookRoutes: readonly PageRoute[] = [
  { path: "/webhooks", title: "Webhooks", load: async () => (await import("./received-page.tsx")).ReceivedPage },
  {
    path: "/webhooks/deliveries",
    title: "Deliveries",
    load: async () => (await import("./deliveries-page.tsx")).DeliveriesPage,
  },
  {
    path: "/webhooks/deliveries/:id",
    title: "Delivery",
    load: async () => (await import("./delivery-page.tsx")).DeliveryPage,
  },
  { path: "/webhooks/send", title: "Test webhook", load: async () => (await import("./send-page.tsx")).SendPage },
  {
    path: "/webhooks/compare",
    title: "Compare webhooks",
    load: async () => (await import("./compare-page.tsx")).ComparePage,
  },
  { path: "/webhooks/:id", title: "Webhook", load: async () => (await import("./webhook-page.tsx")).WebhookPage },
];
