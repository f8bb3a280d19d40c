import type { Notification } from "../../../gen/latchkey/v1/webhook_pb.ts";
import { Dialog } from "../../components/dialog.tsx";
import { FaultNotice, Skeleton } from "../../components/states.tsx";
import { Time } from "../../components/time.tsx";
import { visibleText } from "../../data/bytes.ts";
import { useLoad } from "../../data/load.ts";
import { webhooks } from "../../state/clients.ts";
import { linkTo } from "../../state/router.ts";
import { messageText, webhookTitle } from "./delivery-words.ts";

const mostOffered = 20;

/** Offers the latest webhooks of the same integration, of the same kind if it has one. */
export function CompareDialog({
  notification,
  onClose,
}: {
  readonly notification: Notification;
  readonly onClose: () => void;
}) {
  const { environment, integration, id, kinds } = notification;
  const kind = kinds[0] ?? "";
  const { value, fault, reload } = useLoad(
    async (signal) => {
      const request = { environment, integration, kind, pageSize: mostOffered + 1 };
      const { notifications } = await webhooks.listNotifications(request, { signal });
      return notifications.filter((one) => one.id !== id);
    },
    [environment, integration, id, kind],
  );
  return (
    <Dialog title="Compare with" onClose={onClose}>
      {fault !== undefined && <FaultNotice fault={fault} retry={reload} />}
      {value === undefined && fault === undefined && <Skeleton lines={4} />}
      {value?.length === 0 && <p class="quiet">There is no other webhook of this kind.</p>}
      <ul class="choice-links">
        {value?.map((other) => (
          <li key={other.id}>
            <a href={linkTo("/webhooks/compare", { from: other.id, to: id })}>
              <span>
                {visibleText(webhookTitle(other))} <span class="quiet code">{visibleText(messageText(other))}</span>
              </span>
              <Time at={other.receivedAt} />
            </a>
          </li>
        ))}
      </ul>
    </Dialog>
  );
}
