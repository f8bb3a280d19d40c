import { linkTo, queryValue } from "../../state/router.ts";

type WebhookTab = "received" | "unmatched" | "deliveries";

const tabs: readonly (readonly [tab: WebhookTab, name: string, path: string, show: string])[] = [
  ["received", "Received", "/webhooks", ""],
  ["unmatched", "Without a connection", "/webhooks", "unmatched"],
  ["deliveries", "Deliveries", "/webhooks/deliveries", ""],
];

/** The lists of webhooks. Filters that all of them have go along. */
export function WebhookTabs({ current }: { readonly current: WebhookTab }) {
  const kept = {
    integration: queryValue("integration"),
    connection: queryValue("connection"),
    since: queryValue("since"),
  };
  return (
    <nav class="tabs" aria-label="Lists of webhooks">
      {tabs.map(([tab, name, path, show]) => (
        <a key={tab} href={linkTo(path, { ...kept, show })} aria-current={tab === current ? "page" : undefined}>
          {name}
        </a>
      ))}
    </nav>
  );
}
