import { useSignal } from "@preact/signals";
import { Scope } from "../../../gen/latchkey/v1/access_pb.ts";
import { Forward_State as DeliveryState } from "../../../gen/latchkey/v1/webhook_pb.ts";
import { Button } from "../../components/button.tsx";
import { Dialog } from "../../components/dialog.tsx";
import { Field } from "../../components/field.tsx";
import { FaultNotice, Notice, Skeleton } from "../../components/states.tsx";
import { Time } from "../../components/time.tsx";
import { useAct } from "../../data/act.ts";
import { counted, countText } from "../../data/format.ts";
import { useLoad } from "../../data/load.ts";
import { webhooks } from "../../state/clients.ts";
import { DeliveryBadge } from "./attempts.tsx";
import { type DeliveryFilter, filterMessage } from "./delivery-filter.ts";
import { destinationText } from "./delivery-words.ts";

export type BulkKind = "replay" | "cancel";

interface BulkDialogProps {
  readonly kind: BulkKind;
  readonly filter: DeliveryFilter;
  readonly onClose: () => void;
  readonly onDone: () => void;
}

/** Without a chosen state, a replay sends what the application did not get. */
const notDelivered = [DeliveryState.DEAD, DeliveryState.NO_DESTINATION, DeliveryState.CANCELLED];
/** More than this many must be confirmed by typing the number. */
const mostUnasked = 1_000;

const texts = {
  replay: {
    title: "Replay deliveries",
    verb: "Replay",
    none: "Nothing to replay",
    lead: "Your application gets these deliveries again, with the same webhook-id, so that it can recognize duplicates.",
    done: "Sending",
  },
  cancel: {
    title: "Cancel waiting deliveries",
    verb: "Cancel",
    none: "Nothing to cancel",
    lead: "These deliveries are not sent any more. They stay in the list, and can be replayed later.",
    done: "Cancelled",
  },
} as const;

/** Replays or cancels all deliveries that fit the filters, after their count. */
export function BulkDialog({ kind, filter, onClose, onDone }: BulkDialogProps) {
  const { environment, ...conditions } = filter;
  const acting = useAct({ isQuiet: true });
  const typed = useSignal("");
  const states = conditions.states.length > 0 || kind === "cancel" ? conditions.states : notDelivered;
  const request = { environment, filter: filterMessage({ ...conditions, states }) };
  const {
    value: preview,
    fault,
    reload,
  } = useLoad(
    async (signal) => {
      const [count, rest] = await previewOf(kind, request, signal);
      return { count, ...rest };
    },
    [kind, environment],
  );
  const { title, verb, none, lead, done } = texts[kind];
  const count = preview?.count ?? 0n;
  const isMany = preview !== undefined && (preview.hasMore || count > mostUnasked);
  const isReady = count > 0n && (!isMany || typed.value.trim() === String(count));
  const what = counted(count, "delivery", "deliveries");
  async function submit() {
    if (!isReady) return;
    const work = () => (kind === "replay" ? webhooks.replayForwards(request) : webhooks.cancelForwards(request));
    if (!(await acting.run(work, `${done} ${what}`))) return;
    onDone();
    onClose();
  }
  return (
    <Dialog
      title={title}
      isWide
      onClose={onClose}
      onSubmit={() => void submit()}
      actions={
        <>
          <Button onClick={onClose}>Close</Button>
          <Button
            type="submit"
            kind={kind === "cancel" ? "danger" : "primary"}
            needs={Scope.CONNECTIONS_WRITE}
            isBusy={acting.isBusy}
            isDisabled={!isReady}
          >
            {count === 0n ? verb : `${verb} ${preview?.hasMore ? "more than " : ""}${what}`}
          </Button>
        </>
      }
    >
      <p>{lead}</p>
      {preview === undefined && fault === undefined && <Skeleton lines={3} />}
      {fault !== undefined && <FaultNotice fault={fault} retry={reload} />}
      {preview !== undefined && count === 0n && <Notice>{none}: no such delivery fits the filters.</Notice>}
      {preview !== undefined && count > 0n && <Preview {...preview} />}
      {isMany && (
        <Field
          label={`Type ${String(count)} to confirm`}
          value={typed.value}
          onInput={(value) => (typed.value = value)}
        />
      )}
      {acting.fault !== undefined && <FaultNotice fault={acting.fault} />}
    </Dialog>
  );
}

type BulkRequest = { readonly environment: string; readonly filter: ReturnType<typeof filterMessage> };

async function previewOf(kind: BulkKind, request: BulkRequest, signal: AbortSignal) {
  if (kind === "replay") {
    const { replayed, ...rest } = await webhooks.replayForwards({ ...request, validateOnly: true }, { signal });
    return [replayed, rest] as const;
  }
  const { cancelled, ...rest } = await webhooks.cancelForwards({ ...request, validateOnly: true }, { signal });
  return [cancelled, rest] as const;
}

type PreviewProps = Awaited<ReturnType<typeof previewOf>>[1] & { readonly count: bigint };

function Preview({ count, sample, refused, hasMore }: PreviewProps) {
  const isPart = BigInt(sample.length) < count;
  const refusals = Object.values(refused);
  return (
    <>
      <p>
        <strong>
          {hasMore && "More than "}
          {counted(count, "delivery", "deliveries")}
        </strong>
        {isPart && `, the newest ${countText(sample.length)} of them:`}
      </p>
      <div class="table-box">
        <table aria-label="The first deliveries">
          <tbody>
            {sample.map((one) => (
              <tr key={one.id}>
                <td>{one.connectionId === "" ? one.integration : `${one.integration}/${one.connectionId}`}</td>
                <td>
                  <DeliveryBadge delivery={one} />
                </td>
                <td class="minor">{destinationText(one.destination)}</td>
                <td>
                  <Time at={one.createdAt} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {refusals[0] !== undefined && (
        <Notice tone="warn">
          {counted(refusals.length, "other")} cannot be sent: {refusals[0].message}.
        </Notice>
      )}
    </>
  );
}
