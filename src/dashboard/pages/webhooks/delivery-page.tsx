import { Scope } from "../../../gen/latchkey/v1/access_pb.ts";
import { Forward_State as DeliveryState, type Forward } from "../../../gen/latchkey/v1/webhook_pb.ts";
import { Button } from "../../components/button.tsx";
import { CopyField } from "../../components/copy.tsx";
import { Facts, PageFrame, Section } from "../../components/page.tsx";
import { FaultNotice, Skeleton } from "../../components/states.tsx";
import { Time } from "../../components/time.tsx";
import { useAct } from "../../data/act.ts";
import { reasonText } from "../../data/delivery-errors.ts";
import { words } from "../../data/format.ts";
import { useLoad } from "../../data/load.ts";
import { useWatch } from "../../data/watch.ts";
import { webhooks } from "../../state/clients.ts";
import { environmentName } from "../../state/environment.ts";
import type { PageProps } from "../../state/page-route.ts";
import { linkTo, pathOf } from "../../state/router.ts";
import { AttemptTable, DeliveryBadge } from "./attempts.tsx";
import { Payload } from "./payload.tsx";

/** One delivery to the application, with its attempts and what is sent. */
export function DeliveryPage({ values: { id = "" } }: PageProps) {
  const environment = environmentName.value;
  const { value, fault, reload } = useLoad(
    (signal) => webhooks.getForward({ environment, id }, { signal }),
    [environment, id],
  );
  const acting = useAct();
  const delivery = value?.forward;
  const integration = delivery?.integration ?? "";
  useWatch(
    (signal) => webhooks.watchNotifications({ environment, integration }, { signal }),
    ({ event }) => {
      if (event.case === "forward" && event.value.id === id) reload();
    },
    { isOn: delivery !== undefined, dependencies: [environment, integration, id], onReopen: reload },
  );
  if (value === undefined || delivery === undefined)
    return fault === undefined ? <Skeleton /> : <FaultNotice fault={fault} retry={reload} />;
  const isWaiting = delivery.state === DeliveryState.PENDING || delivery.state === DeliveryState.PAUSED;
  const act = (kind: "replay" | "cancel") =>
    acting.run(
      async () => {
        const request = { environment, ids: [id] };
        const { refused } = await (kind === "replay"
          ? webhooks.replayForwards(request)
          : webhooks.cancelForwards(request));
        const [problem] = Object.values(refused);
        if (problem !== undefined) throw new Error(problem.message);
        reload();
      },
      kind === "replay" ? "Sending it again" : "Cancelled",
    );
  return (
    <PageFrame
      title={delivery.type === "forward" ? "Delivery" : `${words(delivery.type)} event`}
      above={[
        ["Webhooks", linkTo("/webhooks")],
        ["Deliveries", linkTo("/webhooks/deliveries")],
      ]}
      actions={
        <>
          {isWaiting && (
            <Button needs={Scope.CONNECTIONS_WRITE} isBusy={acting.isBusy} onClick={() => void act("cancel")}>
              Cancel
            </Button>
          )}
          <Button
            kind="primary"
            needs={Scope.CONNECTIONS_WRITE}
            isBusy={acting.isBusy}
            onClick={() => void act("replay")}
          >
            {isWaiting ? "Try now" : "Replay"}
          </Button>
        </>
      }
    >
      <DeliveryFacts delivery={delivery} />
      <Section title="Attempts">
        <AttemptTable delivery={delivery} attempts={value.attempts} />
      </Section>
      <Payload title="Body" body={delivery.body} />
    </PageFrame>
  );
}

const DeliveryFacts = ({ delivery }: { readonly delivery: Forward }) => (
  <div class="card">
    <Facts
      rows={[
        ["State", <DeliveryBadge key="state" delivery={delivery} />],
        ["Why", delivery.stateReason === "" ? "" : reasonText(delivery.stateReason)],
        [
          "Destination",
          delivery.destination === "" ? (
            <span key="none">
              None: <a href={linkTo(pathOf("environments", delivery.environment))}>set a forward URL</a>
            </span>
          ) : (
            <a key="url" href={linkTo("/destinations")}>
              {delivery.destination}
            </a>
          ),
        ],
        [
          "Connection",
          delivery.connectionId === "" ? (
            `None, of ${delivery.integration}`
          ) : (
            <a key="to" href={linkTo(`/connections${pathOf(delivery.integration, delivery.connectionId)}`)}>
              {delivery.integration}/{delivery.connectionId}
            </a>
          ),
        ],
        [
          "Webhook",
          delivery.notificationId !== "" && (
            <a key="from" href={linkTo(`/webhooks${pathOf(delivery.notificationId)}`)}>
              {delivery.notificationId}
            </a>
          ),
        ],
        ["webhook-id", <CopyField key="id" text={delivery.id} label="webhook-id" />],
        ["Created", <Time key="created" at={delivery.createdAt} />],
      ]}
    />
  </div>
);
