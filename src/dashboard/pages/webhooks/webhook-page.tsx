import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { Scope } from "../../../gen/latchkey/v1/access_pb.ts";
import { Button } from "../../components/button.tsx";
import { PageFrame } from "../../components/page.tsx";
import { FaultNotice, Skeleton } from "../../components/states.tsx";
import { Time } from "../../components/time.tsx";
import { useAct } from "../../data/act.ts";
import { visibleText } from "../../data/bytes.ts";
import { counted } from "../../data/format.ts";
import { useLoad } from "../../data/load.ts";
import { useWatch } from "../../data/watch.ts";
import { webhooks } from "../../state/clients.ts";
import { environmentName } from "../../state/environment.ts";
import type { PageProps } from "../../state/page-route.ts";
import { linkTo } from "../../state/router.ts";
import { AssignDialog } from "./assign-dialog.tsx";
import { CompareDialog } from "./compare-dialog.tsx";
import { webhookTitle } from "./delivery-words.ts";
import { Payload } from "./payload.tsx";
import { WebhookFlow } from "./webhook-flow.tsx";
import { readStory, type WebhookStory } from "./webhook-story.ts";

const settleMs = 300;

/** The way of one webhook. */
export function WebhookPage({ values: { id = "" } }: PageProps) {
  const environment = environmentName.value;
  const { value: story, fault, reload } = useLoad((signal) => readStory(environment, id, signal), [environment, id]);
  const isAssigning = useSignal(false);
  const isComparing = useSignal(false);
  const acting = useAct();
  useFollowed(story, reload);
  if (story === undefined) return fault === undefined ? <Skeleton /> : <FaultNotice fault={fault} retry={reload} />;
  const { notification, deliveries } = story;
  const replay = () =>
    acting.run(
      async () => {
        await webhooks.replayForwards({ environment, ids: deliveries.map((one) => one.id) });
        reload();
      },
      `Sending ${counted(deliveries.length, "delivery", "deliveries")} again`,
    );
  return (
    <PageFrame
      title={visibleText(webhookTitle(notification))}
      above={[["Webhooks", linkTo("/webhooks")]]}
      lead={
        <>
          {notification.integration}, received <Time at={notification.receivedAt} />
        </>
      }
      actions={
        <>
          <Button onClick={() => (isComparing.value = true)}>Compare…</Button>
          <a class="button" href={linkTo("/webhooks/send", { integration: notification.integration, from: id })}>
            Explain or edit
          </a>
          <Button
            kind="primary"
            needs={Scope.CONNECTIONS_WRITE}
            isBusy={acting.isBusy}
            isDisabled={deliveries.length === 0}
            {...(deliveries.length === 0 && { title: "It has no deliveries" })}
            onClick={() => void replay()}
          >
            Replay
          </Button>
        </>
      }
    >
      <WebhookFlow story={story} onAssign={() => (isAssigning.value = true)} />
      <Payload title="Payload" body={notification.body} headers={notification.headers} />
      {isComparing.value && <CompareDialog notification={notification} onClose={() => (isComparing.value = false)} />}
      {isAssigning.value && (
        <AssignDialog notification={notification} onClose={() => (isAssigning.value = false)} onDone={reload} />
      )}
    </PageFrame>
  );
}

/** Reads the webhook again after its deliveries changed. */
function useFollowed(story: WebhookStory | undefined, reload: () => void): void {
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  useEffect(() => () => clearTimeout(timer.current), []);
  const { environment = "", integration = "", id = "" } = story?.notification ?? {};
  useWatch(
    (signal) => webhooks.watchNotifications({ environment, integration }, { signal }),
    ({ event }) => {
      if (event.case !== "forward" || event.value.notificationId !== id) return;
      clearTimeout(timer.current);
      timer.current = setTimeout(reload, settleMs);
    },
    { isOn: story !== undefined, dependencies: [environment, integration, id], onReopen: reload },
  );
}
