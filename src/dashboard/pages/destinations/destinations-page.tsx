import { durationMs } from "@bufbuild/protobuf/wkt";
import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { Scope } from "../../../gen/latchkey/v1/access_pb.ts";
import type { Destination } from "../../../gen/latchkey/v1/webhook_pb.ts";
import { Badge, type BadgeTone } from "../../components/badge.tsx";
import { Button } from "../../components/button.tsx";
import { CopyField } from "../../components/copy.tsx";
import { Facts, PageFrame } from "../../components/page.tsx";
import { Empty, FaultNotice, Skeleton } from "../../components/states.tsx";
import { Time } from "../../components/time.tsx";
import { useAct } from "../../data/act.ts";
import { reasonText } from "../../data/delivery-errors.ts";
import { countText, durationText } from "../../data/format.ts";
import { useLoad } from "../../data/load.ts";
import { useWatch } from "../../data/watch.ts";
import { webhooks } from "../../state/clients.ts";
import { environmentName } from "../../state/environment.ts";
import { linkTo, pathOf } from "../../state/router.ts";
import { PauseDialog } from "./pause-dialog.tsx";
import { TestDialog } from "./test-dialog.tsx";

/** Ages and counts are read again this often, and sooner after a delivery. */
const everyMs = 10_000;
const settleMs = 500;

type DestinationDialog = { readonly kind: "pause" | "test"; readonly url: string };

/** The URLs that deliveries go to, and how they fare. */
export function DestinationsPage() {
  const environment = environmentName.value;
  const dialog = useSignal<DestinationDialog | undefined>(undefined);
  const { value, fault, reload } = useLoad(
    async (signal) => (await webhooks.listDestinations({ environment }, { signal })).destinations,
    [environment],
  );
  useFollowed(environment, reload);
  const close = () => {
    dialog.value = undefined;
    reload();
  };
  return (
    <PageFrame
      title="Destinations"
      lead="Where webhooks and events go. Deliveries to a paused destination wait."
      actions={
        <a class="button" href={linkTo(pathOf("environments", environment))}>
          URLs and signing secrets
        </a>
      }
    >
      {fault !== undefined && <FaultNotice fault={fault} retry={reload} />}
      {value === undefined && fault === undefined && <Skeleton />}
      {value?.length === 0 && (
        <Empty title="No destination yet">
          <p>Set the forward URL of the environment: your application then gets webhooks and events there.</p>
          <a class="button primary" href={linkTo(pathOf("environments", environment))}>
            Set the forward URL
          </a>
        </Empty>
      )}
      <div class="destinations">
        {value?.map((destination) => (
          <DestinationCard
            key={destination.url}
            destination={destination}
            onChange={reload}
            onDialog={(kind) => (dialog.value = { kind, url: destination.url })}
          />
        ))}
      </div>
      {dialog.value?.kind === "pause" && (
        <PauseDialog environment={environment} url={dialog.value.url} onClose={close} />
      )}
      {dialog.value?.kind === "test" && <TestDialog environment={environment} url={dialog.value.url} onClose={close} />}
    </PageFrame>
  );
}

function useFollowed(environment: string, reload: () => void): void {
  const settling = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  useEffect(() => {
    const timer = setInterval(() => {
      if (document.visibilityState === "visible") reload();
    }, everyMs);
    return () => {
      clearInterval(timer);
      clearTimeout(settling.current);
    };
  }, []);
  useWatch(
    (signal) => webhooks.watchNotifications({ environment }, { signal }),
    ({ event }) => {
      if (event.case !== "forward") return;
      settling.current ??= setTimeout(() => {
        settling.current = undefined;
        reload();
      }, settleMs);
    },
    { dependencies: [environment], onReopen: reload },
  );
}

interface DestinationCardProps {
  readonly destination: Destination;
  readonly onChange: () => void;
  readonly onDialog: (kind: DestinationDialog["kind"]) => void;
}

function DestinationCard({ destination, onChange, onDialog }: DestinationCardProps) {
  const { url, paused, pending, oldest } = destination;
  const acting = useAct();
  const resume = () =>
    acting.run(async () => {
      await webhooks.resumeDestination({ environment: environmentName.value, url });
      onChange();
    }, "Resumed");
  const [tone, state] = healthOf(destination);
  const waiting = linkTo("/webhooks/deliveries", { destination: url, state: "waiting" });
  return (
    <section class="card destination" aria-label={`Destination ${url}`}>
      <div class="destination-head">
        <CopyField text={url} label="URL" />
        <Badge tone={tone}>{state}</Badge>
      </div>
      <Facts
        rows={[
          ["Paused", paused && <PauseText key="pause" destination={destination} />],
          [
            "Waiting",
            pending === 0n ? (
              "None"
            ) : (
              <a key="waiting" href={waiting}>
                {countText(pending)}
                {oldest !== undefined && `, the oldest for ${durationText(durationMs(oldest))}`}
              </a>
            ),
          ],
          ["Failures", <FailureText key="failures" destination={destination} />],
          [
            "Last delivered",
            <Time key="delivered" at={destination.lastDeliveredAt} none="Not since Latchkey started" />,
          ],
        ]}
      />
      <div class="row-of-buttons">
        <Button isSmall needs={Scope.CONNECTIONS_WRITE} onClick={() => onDialog("test")}>
          Send a test
        </Button>
        {paused ? (
          <Button
            isSmall
            kind="primary"
            needs={Scope.CONNECTIONS_WRITE}
            isBusy={acting.isBusy}
            onClick={() => void resume()}
          >
            Resume
          </Button>
        ) : (
          <Button isSmall needs={Scope.CONNECTIONS_WRITE} onClick={() => onDialog("pause")}>
            Pause…
          </Button>
        )}
      </div>
    </section>
  );
}

function healthOf({ paused, failures, lastDeliveredAt }: Destination): readonly [BadgeTone, string] {
  if (paused) return ["warn", "Paused"];
  if (failures > 0) return ["bad", "Failing"];
  return lastDeliveredAt === undefined ? ["quiet", "Open"] : ["good", "Healthy"];
}

const PauseText = ({ destination }: { readonly destination: Destination }) => (
  <>
    <Time at={destination.pausedAt} />{" "}
    {destination.pausedReason === "gone" ? (
      "by Latchkey: the application answered 410 (gone)"
    ) : (
      <>
        by {destination.pausedBy}
        {destination.pausedNote !== "" && `: ${destination.pausedNote}`}
      </>
    )}
  </>
);

function FailureText({ destination: { failures, lastFailure, lastFailedAt } }: { readonly destination: Destination }) {
  if (failures === 0) return <>None since the last delivery</>;
  return (
    <span class="bad-text">
      {countText(failures)} in a row, last: {reasonText(lastFailure).toLowerCase()}, <Time at={lastFailedAt} />
    </span>
  );
}
