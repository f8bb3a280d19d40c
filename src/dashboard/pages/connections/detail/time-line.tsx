import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { Scope } from "../../../../gen/latchkey/v1/access_pb.ts";
import type { Connection } from "../../../../gen/latchkey/v1/connection_pb.ts";
import { Button } from "../../../components/button.tsx";
import { SelectFilter } from "../../../components/filters.tsx";
import { FaultNotice, Skeleton } from "../../../components/states.tsx";
import { Time } from "../../../components/time.tsx";
import { capitalized, counted } from "../../../data/format.ts";
import { type CallFault, faultOf } from "../../../state/fault.ts";
import { queryValue } from "../../../state/router.ts";
import { may } from "../../../state/session.ts";
import { CauseList } from "./health-notice.tsx";
import type { TimeLineEvent } from "./time-line-events.ts";
import { type EventSource, sourcesOf } from "./time-line-sources.ts";

const kinds = [
  ["problems", "Problems"],
  ["credentials", "Credentials"],
  ["requests", "Requests"],
  ["webhooks", "Webhooks"],
  ["channels", "Channels"],
  ["runs", "Runs"],
  ["changes", "Changes"],
] as const;

/** Everything that happened to a connection, newest first, from logs, webhooks, channels, runs and the audit trail. */
export function TimeLine({ connection }: { readonly connection: Connection }) {
  const { events, isLoading, hasMore, faults, more } = useTimeLine(connection);
  const shown = queryValue("show");
  if (events === undefined) return <Skeleton />;
  const wanted = events.filter(({ kind, isBad }) => shown === "" || kind === shown || (shown === "problems" && isBad));
  return (
    <section aria-label="Timeline">
      <div class="time-line-filter">
        <SelectFilter name="show" label="Show" options={kinds} />
      </div>
      {faults.map((fault) => (
        <FaultNotice key={fault.message} fault={fault} />
      ))}
      {wanted.length === 0 && (
        <p class="quiet">{shown === "problems" ? "No problem is recorded." : "Nothing is recorded."}</p>
      )}
      <ol class="time-line" aria-busy={isLoading}>
        {wanted.map((event) => (
          <TimeLineEntry key={event.id} event={event} />
        ))}
      </ol>
      {hasMore && (
        <p class="table-foot">
          <Button isSmall isBusy={isLoading} onClick={more}>
            Show older
          </Button>
        </p>
      )}
      {!may(Scope.ADMIN) && <p class="quiet">Changes by keys are shown to keys with the scope admin.</p>}
    </section>
  );
}

const TimeLineEntry = ({
  event: { title, detail, causes, at, isBad, link, kind },
}: {
  readonly event: TimeLineEvent;
}) => (
  <li class={`${kind}${isBad ? " bad" : ""}`}>
    <div class="time-line-head">
      {link === undefined ? (
        <strong>{title}</strong>
      ) : (
        <a href={link} data-row-link>
          {title}
        </a>
      )}
      <Time at={at} />
    </div>
    {detail !== undefined && <p>{capitalized(detail)}</p>}
    {causes !== undefined && (
      <details>
        <summary>{counted(causes.length, "possible cause")}</summary>
        <CauseList causes={causes} />
      </details>
    )}
  </li>
);

interface TimeLineState {
  readonly events: readonly TimeLineEvent[] | undefined;
  readonly isLoading: boolean;
  readonly hasMore: boolean;
  readonly faults: readonly CallFault[];
  more(): void;
}

/** How far a source was read. */
interface SourceProgress {
  readonly source: EventSource;
  events: readonly TimeLineEvent[];
  /** Undefined: not read yet. */
  next: string | undefined;
}

/** Reads all sources and merges them. Events older than the end of a source that has more wait for that source. */
function useTimeLine({ ref, revision }: Connection): TimeLineState {
  const events = useSignal<readonly TimeLineEvent[] | undefined>(undefined);
  const isLoading = useSignal(false);
  const faults = useSignal<readonly CallFault[]>([]);
  const progress = useRef<SourceProgress[]>([]);
  const over = useRef(new AbortController());

  async function read(which: readonly SourceProgress[]): Promise<void> {
    const { signal } = over.current;
    isLoading.value = true;
    const failed: CallFault[] = [];
    await Promise.all(
      which.map(async (one) => {
        try {
          const page = await one.source(one.next ?? "", signal);
          one.events = [...one.events, ...page.items];
          one.next = page.nextPageToken;
        } catch (error) {
          one.next = "";
          const fault = faultOf(error);
          // What the key may not read is left out.
          if (fault.code !== "missing_scope") failed.push(fault);
        }
      }),
    );
    if (signal.aborted) return;
    faults.value = failed;
    const ends = progress.current.map(endOf);
    const cut = Math.max(...ends);
    events.value = progress.current
      .flatMap((one) => one.events)
      .filter(({ at }) => at >= cut)
      .sort((one, other) => other.at - one.at);
    isLoading.value = false;
  }

  useEffect(() => {
    if (ref === undefined) return;
    over.current = new AbortController();
    progress.current = sourcesOf(ref).map((source) => ({ source, events: [], next: undefined }));
    void read(progress.current);
    return () => over.current.abort();
    // A new revision means that something happened.
  }, [ref?.environment, ref?.integration, ref?.id, revision]);

  return {
    events: events.value,
    isLoading: isLoading.value,
    hasMore: progress.current.some(({ next }) => next !== undefined && next !== ""),
    faults: faults.value,
    more() {
      const ends = progress.current.map(endOf);
      const cut = Math.max(...ends);
      if (!isLoading.peek()) void read(progress.current.filter((_, i) => ends[i] === cut && Number.isFinite(cut)));
    },
  };
}

/** The time down to which a source is complete. */
const endOf = ({ next, events }: SourceProgress): number =>
  next === undefined || next === "" ? Number.NEGATIVE_INFINITY : (events.at(-1)?.at ?? Number.NEGATIVE_INFINITY);
