import { useSignal } from "@preact/signals";
import type { Forward, Notification } from "../../../gen/latchkey/v1/webhook_pb.ts";
import { Badge } from "../../components/badge.tsx";
import { Button } from "../../components/button.tsx";
import { FilterBar, SearchFilter, SelectFilter } from "../../components/filters.tsx";
import { LiveSwitch } from "../../components/live.tsx";
import { PageFrame } from "../../components/page.tsx";
import { Empty } from "../../components/states.tsx";
import { PagedTable, type TableColumn } from "../../components/table.tsx";
import { Time } from "../../components/time.tsx";
import { visibleText } from "../../data/bytes.ts";
import { counted } from "../../data/format.ts";
import { useIntegrationNames } from "../../data/integration-names.ts";
import { ages } from "../../data/since.ts";
import { environmentName } from "../../state/environment.ts";
import { linkTo, pathOf, queryValue, setQuery } from "../../state/router.ts";
import { deliveryWords, messageText, proofWords, webhookTitle } from "./delivery-words.ts";
import { type ReceivedFilter, useReceived } from "./received.ts";
import { ValueFilter } from "./value-filter.tsx";
import { WebhookTabs } from "./webhook-tabs.tsx";

/** What providers sent, newest first. */
export function ReceivedPage() {
  const isLive = useSignal(true);
  const filter: ReceivedFilter = {
    environment: environmentName.value,
    integration: queryValue("integration"),
    connectionId: queryValue("connection"),
    unmatched: queryValue("show") === "unmatched",
    kind: queryValue("kind"),
    text: queryValue("q"),
    age: queryValue("since"),
  };
  const list = useReceived(filter, isLive.value);
  const integrations = useIntegrationNames();
  return (
    <PageFrame
      title="Webhooks"
      lead="What providers sent, which connection it is about, and where it went."
      actions={
        <a class="button" href={linkTo("/webhooks/send", { integration: filter.integration })}>
          Explain or send a test
        </a>
      }
    >
      <WebhookTabs current={filter.unmatched ? "unmatched" : "received"} />
      <FilterBar>
        <SearchFilter label="Text in the message ID, headers or body" />
        <SelectFilter name="integration" label="Integration" options={integrations.map((key) => [key, key])} />
        <SelectFilter name="since" label="Received" options={ages} />
        <ValueFilter name="connection" label="Connection" />
        <ValueFilter name="kind" label="Kind" />
        <LiveSwitch state={list.watchState} isOn={isLive.value} onChange={(isOn) => (isLive.value = isOn)} />
      </FilterBar>
      {(list.waiting > 0 || list.hasMissed) && (
        <p class="fresh-rows">
          <Button isSmall onClick={list.showWaiting}>
            {list.hasMissed ? "Show what is new" : `Show ${counted(list.waiting, "new webhook")}`}
          </Button>
        </p>
      )}
      <PagedTable
        label="Webhooks"
        pager={list.pager}
        columns={columnsOf(list.deliveries)}
        keyOf={({ id }) => id}
        linkOf={({ id }) => linkTo(`/webhooks${pathOf(id)}`)}
        empty={<NoWebhooks filter={filter} />}
      />
    </PageFrame>
  );
}

const columnsOf = (deliveries: ReadonlyMap<string, readonly Forward[]>): readonly TableColumn<Notification>[] => [
  { name: "Webhook", show: (one) => <WebhookName notification={one} /> },
  { name: "Integration", show: ({ integration }) => integration, isMinor: true },
  { name: "Connection", show: (one) => <MatchCell notification={one} /> },
  { name: "Sender", show: (one) => <ProofBadge notification={one} />, isMinor: true },
  { name: "Delivery", show: ({ id }) => <DeliveryCell deliveries={deliveries.get(id) ?? []} /> },
  { name: "Received", show: ({ receivedAt }) => <Time at={receivedAt} /> },
];

const WebhookName = ({ notification }: { readonly notification: Notification }) => (
  <span class="webhook-name">
    {visibleText(webhookTitle(notification))}
    {notification.messageId !== "" && <span class="quiet code minor"> {visibleText(messageText(notification))}</span>}
  </span>
);

function MatchCell({ notification: { matches } }: { readonly notification: Notification }) {
  const [first] = matches;
  if (first === undefined) return <Badge tone="warn">No match</Badge>;
  return (
    <>
      {first.id}
      {matches.length > 1 && <span class="quiet"> and {matches.length - 1} more</span>}
    </>
  );
}

function ProofBadge({ notification }: { readonly notification: Notification }) {
  const [tone, text] = proofWords(notification);
  return <Badge tone={tone}>{text}</Badge>;
}

/** The worst state among the deliveries of a webhook. */
function DeliveryCell({ deliveries }: { readonly deliveries: readonly Forward[] }) {
  const severity = ["bad", "warn", "info", "good", "quiet"];
  const [worst] = deliveries.map(deliveryWords).toSorted(([a], [b]) => severity.indexOf(a) - severity.indexOf(b));
  if (worst === undefined) return <span class="quiet">None</span>;
  const [tone, text] = worst;
  const others = deliveries.length > 1 ? counted(deliveries.length, "delivery", "deliveries") : undefined;
  return (
    <Badge tone={tone} {...(others !== undefined && { title: others })}>
      {text}
      {others !== undefined && ` (${deliveries.length})`}
    </Badge>
  );
}

function NoWebhooks({ filter }: { readonly filter: ReceivedFilter }) {
  const { integration, connectionId, kind, text, age, unmatched } = filter;
  const isFiltered = [integration, connectionId, kind, text, age].some((value) => value !== "");
  if (isFiltered)
    return (
      <Empty title="No webhook fits the filters">
        <Button onClick={() => setQuery({ integration: "", connection: "", kind: "", q: "", since: "" })}>
          Clear the filters
        </Button>
      </Empty>
    );
  if (unmatched)
    return <Empty title="Every webhook has its connection">Webhooks that match no connection appear here.</Empty>;
  return (
    <Empty title="No webhooks yet">
      <p>
        Copy the webhook URL of an integration to its provider, or send a test. Webhooks whose signature is wrong are
        refused and not kept.
      </p>
      <p class="row-of-buttons">
        <a class="button" href={linkTo("/integrations")}>
          Open integrations
        </a>
        <a class="button primary" href={linkTo("/webhooks/send")}>
          Send a test
        </a>
      </p>
    </Empty>
  );
}
