import { durationMs } from "@bufbuild/protobuf/wkt";
import { useSignal } from "@preact/signals";
import { Scope } from "../../../gen/latchkey/v1/access_pb.ts";
import { type Channel, Channel_State as ChannelState } from "../../../gen/latchkey/v1/channel_pb.ts";
import { Badge } from "../../components/badge.tsx";
import { Button } from "../../components/button.tsx";
import { Confirm } from "../../components/confirm.tsx";
import { CopyField } from "../../components/copy.tsx";
import { Dialog } from "../../components/dialog.tsx";
import { Facts } from "../../components/page.tsx";
import { FaultNotice, Notice, Skeleton } from "../../components/states.tsx";
import { Time } from "../../components/time.tsx";
import { useAct } from "../../data/act.ts";
import { visibleText } from "../../data/bytes.ts";
import { durationText, words } from "../../data/format.ts";
import { useLoad } from "../../data/load.ts";
import { channels } from "../../state/clients.ts";
import { linkTo, pathOf, setQuery } from "../../state/router.ts";
import { channelWords, historiesOf, isEndless, isOver } from "./channel-lives.ts";

interface ChannelDrawerProps {
  readonly environment: string;
  readonly id: string;
  readonly others: readonly Channel[];
  readonly onClose: () => void;
  readonly onChange: () => void;
}

/** A channel with the ones before it; renews, stops or takes it over. */
export function ChannelDrawer({ environment, id, others, onClose, onChange }: ChannelDrawerProps) {
  const changed = others.find((one) => one.id === id)?.revision;
  const { value, fault, reload } = useLoad(
    async (signal) => (await channels.getChannel({ environment, id }, { signal })).channel,
    [environment, id, changed],
  );
  const isStopping = useSignal(false);
  const acting = useAct({ isQuiet: true });
  const act = (work: () => Promise<{ readonly channel?: Channel | undefined }>, done: string) =>
    acting.run(async () => {
      const { channel } = await work();
      onChange();
      if (channel !== undefined && channel.id !== id) setQuery({ channel: channel.id });
      else reload();
    }, done);
  if (isStopping.value)
    return (
      <Confirm
        title="Stop this channel"
        verb="Stop"
        isDanger
        done="Stopping"
        act={() => channels.stopChannel({ environment, id })}
        onClose={() => {
          isStopping.value = false;
          onChange();
          reload();
        }}
      >
        <p>Its notifications are ignored at once, and it is not replaced. You can create a new one later.</p>
      </Confirm>
    );
  return (
    <Dialog
      title="Channel"
      isDrawer
      onClose={onClose}
      actions={
        value !== undefined &&
        !isOver(value) && (
          <>
            <Button needs={Scope.CONNECTIONS_WRITE} onClick={() => (isStopping.value = true)}>
              Stop…
            </Button>
            <RenewButton channel={value} isBusy={acting.isBusy} act={act} />
          </>
        )
      }
    >
      {value === undefined && (fault === undefined ? <Skeleton /> : <FaultNotice fault={fault} retry={reload} />)}
      {acting.fault !== undefined && <FaultNotice fault={acting.fault} />}
      {value !== undefined && <ChannelFacts channel={value} />}
      {value !== undefined && <Lives channel={value} others={others} />}
    </Dialog>
  );
}

interface RenewButtonProps {
  readonly channel: Channel;
  readonly isBusy: boolean;
  readonly act: (work: () => Promise<{ readonly channel?: Channel | undefined }>, done: string) => Promise<boolean>;
}

/** Our own channel is renewed; one of a script is replaced by one of ours. */
function RenewButton({ channel, isBusy, act }: RenewButtonProps) {
  const { id, connection, resourceKind, resource, managed, state } = channel;
  const environment = connection?.environment ?? "";
  const isReady = state === ChannelState.ACTIVE;
  const work = () =>
    managed || connection === undefined
      ? channels.renewChannel({ environment, id })
      : channels.createChannel({ connection, resourceKind, resource });
  return (
    <Button
      kind="primary"
      needs={Scope.CONNECTIONS_WRITE}
      isBusy={isBusy}
      isDisabled={!isReady}
      {...(!isReady && { title: "Only an active channel can be renewed" })}
      onClick={() => void act(work, managed ? "Renewed" : "Taken over")}
    >
      {managed ? "Renew now" : "Take over"}
    </Button>
  );
}

function ChannelFacts({ channel }: { readonly channel: Channel }) {
  const [tone, text] = channelWords(channel);
  const { connection, resourceKind, resource, resourceUri, stateReason, longestPause } = channel;
  const { integration = "", id = "" } = connection ?? {};
  return (
    <>
      {channel.silent && (
        <Notice tone="warn">
          {channel.lastNotifiedAt === undefined
            ? "No message ever came, although the provider announces each channel. "
            : "No message came for much longer than usual. Latchkey renews it and starts the syncs that catch up. "}
          Check that the provider can reach the webhook URL.
        </Notice>
      )}
      {!channel.managed && (
        <Notice>
          A script made this channel: its end is unknown, and its messages prove no origin. Take it over, and Latchkey
          renews it.
        </Notice>
      )}
      <Facts
        rows={[
          [
            "State",
            <Badge key="state" tone={tone}>
              {text}
            </Badge>,
          ],
          ["Why", stateReason === "" ? "" : words(stateReason)],
          [
            "Connection",
            id === "" ? (
              `all of ${integration}`
            ) : (
              <a key="connection" href={linkTo(`/connections${pathOf(integration, id)}`)}>
                {integration}/{id}
              </a>
            ),
          ],
          ["Watches", visibleText(`${resourceKind} ${resource}`.trim())],
          ["Resource URI", resourceUri === "" ? "" : visibleText(resourceUri)],
          ["Created", <Time key="created" at={channel.createdAt} />],
          ["Renewal", !isOver(channel) && <Time key="renewal" at={channel.renewAt} />],
          ["Expires", <Time key="expires" at={channel.expiresAt} none={isEndless(channel) ? "Never" : "Unknown"} />],
          ["Position", visibleText(channel.position)],
          ["Last message", <Time key="last" at={channel.lastNotifiedAt} none="None yet" />],
          ["Message number", visibleText(channel.lastMessageNumber)],
          ["Longest pause", longestPause && durationText(durationMs(longestPause))],
          ["ID at the provider", visibleText(channel.providerId)],
          ["ID", <CopyField key="id" text={channel.id} label="channel ID" />],
        ]}
      />
      <p>
        <a href={linkTo("/webhooks", { integration, connection: id })}>Webhooks of this connection</a>
      </p>
    </>
  );
}

/** The channels of the same resource, newest first. */
function Lives({ channel, others }: { readonly channel: Channel; readonly others: readonly Channel[] }) {
  const history = historiesOf(others).find(({ lives }) => lives.some(({ id }) => id === channel.id));
  if (history === undefined || history.lives.length < 2) return null;
  return (
    <section>
      <h3>Lives</h3>
      <ul class="life-list">
        {history.lives.toReversed().map((one) => {
          const [tone, text] = channelWords(one);
          return (
            <li key={one.id}>
              <button
                type="button"
                class="text-button"
                aria-current={one.id === channel.id ? "true" : undefined}
                onClick={() => setQuery({ channel: one.id })}
              >
                <Time at={one.createdAt} />
              </button>
              <Badge tone={tone}>{text}</Badge>
              {one.stateReason !== "" && <span class="quiet">{words(one.stateReason)}</span>}
            </li>
          );
        })}
      </ul>
    </section>
  );
}
