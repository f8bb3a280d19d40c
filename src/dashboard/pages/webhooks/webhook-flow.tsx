import type { ComponentChildren } from "preact";
import { Scope } from "../../../gen/latchkey/v1/access_pb.ts";
import type { ConnectionRef } from "../../../gen/latchkey/v1/connection_pb.ts";
import { LookupRule_Transform, type NotificationRules, type ValueRule } from "../../../gen/latchkey/v1/provider_pb.ts";
import {
  Forward_State as DeliveryState,
  type Forward,
  type Notification,
  Notification_Proof,
} from "../../../gen/latchkey/v1/webhook_pb.ts";
import { Badge, type BadgeTone } from "../../components/badge.tsx";
import { Button } from "../../components/button.tsx";
import { CopyField } from "../../components/copy.tsx";
import { Time } from "../../components/time.tsx";
import { visibleText } from "../../data/bytes.ts";
import { reasonText } from "../../data/delivery-errors.ts";
import { countText } from "../../data/format.ts";
import { useLoad } from "../../data/load.ts";
import { providers } from "../../state/clients.ts";
import { linkTo, pathOf } from "../../state/router.ts";
import { may } from "../../state/session.ts";
import { AttemptTable, DeliveryBadge } from "./attempts.tsx";
import { destinationText, messageText, proofSentence, proofWords } from "./delivery-words.ts";
import type { WebhookStory } from "./webhook-story.ts";

/** The way of a webhook: receipt, sender, match, deliveries with their attempts. */
export function WebhookFlow({ story, onAssign }: { readonly story: WebhookStory; readonly onAssign: () => void }) {
  const { notification } = story;
  const [tone, proof] = proofWords(notification);
  const { messageId, channelId, integration, provider, receivedAt, proofScheme } = notification;
  return (
    <ol class="flow">
      <Step title="Received" tone="good" aside={<Time at={receivedAt} />}>
        <p>
          By <a href={linkTo(`/integrations${pathOf(integration)}`)}>{integration}</a>
          {provider !== integration && ` (${provider})`}
          {channelId !== "" && ", over the "}
          {channelId !== "" && isOwnChannel(notification) && (
            <a href={linkTo("/channels", { channel: channelId })}>channel {visibleText(channelId)}</a>
          )}
          {channelId !== "" && !isOwnChannel(notification) && `channel ${visibleText(channelId)}`}
        </p>
        {messageId !== "" && <CopyField text={visibleText(messageText(notification))} label="message ID" />}
      </Step>
      <Step title="Sender" tone={tone} aside={<Badge tone={tone}>{proof}</Badge>}>
        <p>
          {proofSentence(notification)} {proofScheme !== "" && <span class="chip">{proofScheme}</span>}
        </p>
      </Step>
      <MatchStep notification={notification} onAssign={onAssign} />
      <DeliveriesStep story={story} />
    </ol>
  );
}

/** Whether Latchkey created the channel: its token was right. */
const isOwnChannel = ({ proof, proofScheme }: Notification): boolean =>
  proof === Notification_Proof.VALID && proofScheme === "channel_token";

interface StepProps {
  readonly title: string;
  readonly tone: BadgeTone;
  readonly aside?: ComponentChildren;
  readonly children: ComponentChildren;
}

const Step = ({ title, tone, aside, children }: StepProps) => (
  <li class={`flow-step ${tone}`}>
    <div class="flow-head">
      <h2>{title}</h2>
      {aside}
    </div>
    {children}
  </li>
);

const shownMatches = 10;

function MatchStep({ notification, onAssign }: { readonly notification: Notification; readonly onAssign: () => void }) {
  const { matches, matchedRule } = notification;
  const isFound = matches.length > 0;
  return (
    <Step
      title="Connection"
      tone={isFound ? "good" : "warn"}
      aside={isFound ? undefined : <Badge tone="warn">No match</Badge>}
    >
      <p>{matchSentence(notification)}</p>
      {isFound ? (
        <ul class="match-list">
          {matches.slice(0, shownMatches).map((ref) => (
            <li key={ref.id}>
              <ConnectionLink to={ref} />
            </li>
          ))}
          {matches.length > shownMatches && <li class="quiet">and {countText(matches.length - shownMatches)} more</li>}
        </ul>
      ) : (
        <p>
          <Button isSmall needs={Scope.CONNECTIONS_WRITE} onClick={onAssign}>
            File to a connection
          </Button>
        </p>
      )}
      <MatchRules provider={notification.provider} matched={matchedRule} />
    </Step>
  );
}

const ConnectionLink = ({ to }: { readonly to: ConnectionRef }) => (
  <a href={linkTo(`/connections${pathOf(to.integration, to.id)}`)}>{to.id}</a>
);

function matchSentence({ matches, matchedRule, matchedField, assignedBy, channelId }: Notification): ComponentChildren {
  if (assignedBy !== "") return `Filed by hand, by ${assignedBy}.`;
  if (matches.length === 0)
    return "No rule found a connection, so your application got it without one. Correct the connection's metadata, or file this webhook by hand.";
  if (matchedRule < 0) return channelId === "" ? "Matched." : "Matched by the channel that it came over.";
  return (
    <>
      Rule {matchedRule} matched: <code>{matchedField}</code> of the connection is the value in the webhook.
    </>
  );
}

/** The provider's rules in their order, with the one that matched. */
function MatchRules({ provider, matched }: { readonly provider: string; readonly matched: number }) {
  const isAllowed = may(Scope.INTEGRATIONS_READ);
  const { value: rules } = useLoad(
    async (signal) =>
      isAllowed ? (await providers.getProvider({ name: provider }, { signal })).provider?.notification : undefined,
    [provider, isAllowed],
  );
  if (rules === undefined || rules.lookups.length === 0) return null;
  return (
    <details class="match-rules">
      <summary>Rules of {provider}, in order</summary>
      <ol start={0}>
        {rules.lookups.map(({ field, value, transform }, i) => (
          <li key={i} aria-current={i === matched ? "true" : undefined}>
            <code>{field}</code> is {changedText[transform] ?? ""}
            {placeOf(rules, value)}
          </li>
        ))}
      </ol>
    </details>
  );
}

const changedText: Readonly<Partial<Record<LookupRule_Transform, string>>> = {
  [LookupRule_Transform.EMAIL_HASH]: "the hash of ",
  [LookupRule_Transform.LOWER_CASE]: "in lower case ",
};

function placeOf(rules: NotificationRules, name: string): ComponentChildren {
  const rule: ValueRule | undefined = Object.hasOwn(rules.values, name) ? rules.values[name] : undefined;
  if (rule === undefined) return <code>{name}</code>;
  const { header, body, query, form, segmentAfter } = rule;
  const [kind, place] = [
    ["the header", header],
    ["the body's", body],
    ["the query's", query],
    ["the form's", form],
  ].find(([, text]) => text !== "") ?? ["", name];
  return (
    <>
      {kind} <code>{place}</code>
      {segmentAfter !== "" && (
        <>
          , after <code>{segmentAfter}</code>
        </>
      )}
    </>
  );
}

function DeliveriesStep({ story: { deliveries, attempts } }: { readonly story: WebhookStory }) {
  const worst = deliveries.some(({ state }) => state === DeliveryState.DEAD)
    ? "bad"
    : deliveries.every(({ state }) => state === DeliveryState.DELIVERED) && deliveries.length > 0
      ? "good"
      : "warn";
  return (
    <Step title="Deliveries" tone={deliveries.length === 0 ? "quiet" : worst}>
      {deliveries.length === 0 && (
        <p class="quiet">None: the integration does not deliver its webhooks, or they are older than the retention.</p>
      )}
      {deliveries.map((delivery) => (
        <section key={delivery.id} class="delivery" aria-label={`Delivery ${delivery.id}`}>
          <DeliveryHead delivery={delivery} />
          {attempts.has(delivery.id) && <AttemptTable delivery={delivery} attempts={attempts.get(delivery.id) ?? []} />}
        </section>
      ))}
    </Step>
  );
}

const DeliveryHead = ({ delivery }: { readonly delivery: Forward }) => (
  <p class="delivery-head">
    <DeliveryBadge delivery={delivery} />
    <a href={linkTo(`/webhooks/deliveries${pathOf(delivery.id)}`)}>
      {delivery.destination === "" ? "No destination" : destinationText(delivery.destination)}
    </a>
    {delivery.connectionId !== "" && <span class="quiet">for {delivery.connectionId}</span>}
    {delivery.stateReason !== "" && <span class="quiet">{reasonText(delivery.stateReason)}</span>}
  </p>
);
