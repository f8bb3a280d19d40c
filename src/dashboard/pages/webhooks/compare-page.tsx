import { useMemo } from "preact/hooks";
import type { Notification } from "../../../gen/latchkey/v1/webhook_pb.ts";
import { PageFrame, Section } from "../../components/page.tsx";
import { Empty, FaultNotice, Notice, Skeleton } from "../../components/states.tsx";
import { Time } from "../../components/time.tsx";
import { hexText, indentedJson, textOf, visibleText } from "../../data/bytes.ts";
import { counted } from "../../data/format.ts";
import { type DiffLine, lineDiff } from "../../data/line-diff.ts";
import { useLoad } from "../../data/load.ts";
import { webhooks } from "../../state/clients.ts";
import { environmentName } from "../../state/environment.ts";
import { linkTo, pathOf, queryValue } from "../../state/router.ts";
import { messageText, webhookTitle } from "./delivery-words.ts";

/** What differs between two webhooks, line by line. */
export function ComparePage() {
  const environment = environmentName.value;
  const [from, to] = [queryValue("from"), queryValue("to")];
  const { value, fault, reload } = useLoad(
    async (signal) => {
      if (from === "" || to === "") return [];
      const found = await Promise.all(
        [from, to].map((id) => webhooks.getNotification({ environment, id }, { signal })),
      );
      return found.flatMap(({ notification }) => notification ?? []);
    },
    [environment, from, to],
  );
  const [before, after] = value ?? [];
  return (
    <PageFrame title="Compare webhooks" above={[["Webhooks", linkTo("/webhooks")]]}>
      {fault !== undefined && <FaultNotice fault={fault} retry={reload} />}
      {value === undefined && fault === undefined && <Skeleton />}
      {value?.length === 0 && (
        <Empty title="Choose two webhooks">
          <p>Open a webhook and choose Compare.</p>
          <a class="button primary" href={linkTo("/webhooks")}>
            Open webhooks
          </a>
        </Empty>
      )}
      {before !== undefined && after !== undefined && (
        <>
          <div class="compared">
            <ComparedHead notification={before} sign="−" />
            <ComparedHead notification={after} sign="+" />
          </div>
          <Difference title="Headers" before={headersOf(before)} after={headersOf(after)} />
          <Difference title="Payload" before={bodyOf(before)} after={bodyOf(after)} />
        </>
      )}
    </PageFrame>
  );
}

const ComparedHead = ({ notification, sign }: { readonly notification: Notification; readonly sign: string }) => (
  <p>
    <span class="code">{sign}</span>{" "}
    <a href={linkTo(`/webhooks${pathOf(notification.id)}`)}>
      {visibleText(webhookTitle(notification))} {visibleText(messageText(notification))}
    </a>{" "}
    <span class="quiet">
      <Time at={notification.receivedAt} />
    </span>
  </p>
);

const headersOf = ({ headers }: Notification): string =>
  headers
    .map(({ name, value }) => `${name}: ${textOf(value) ?? hexText(value)}`)
    .toSorted()
    .join("\n");

function bodyOf({ body }: Notification): string {
  const text = textOf(body);
  return text === undefined ? hexText(body) : (indentedJson(text) ?? text);
}

interface DifferenceProps {
  readonly title: string;
  readonly before: string;
  readonly after: string;
}

function Difference({ title, before, after }: DifferenceProps) {
  const lines = useMemo(() => lineDiff(before.split("\n"), after.split("\n")), [before, after]);
  if (lines === undefined)
    return (
      <Section title={title}>
        <Notice>They are too long and too different to be compared here.</Notice>
      </Section>
    );
  const changes = lines.filter(({ kind }) => kind !== "same").length;
  return (
    <Section
      title={title}
      actions={<span class="quiet">{changes === 0 ? "Equal" : counted(changes, "changed line")}</span>}
    >
      {changes > 0 && (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a box that scrolls must be reachable by keyboard.
        <section class="diff" tabIndex={0} aria-label={`Differences of the ${title.toLowerCase()}`}>
          {stretchesOf(lines).map((stretch, i) => (
            <Stretch key={i} lines={stretch} />
          ))}
        </section>
      )}
    </Section>
  );
}

const shownAround = 3;

function Stretch({ lines }: { readonly lines: readonly DiffLine[] }) {
  const isLong = lines[0]?.kind === "same" && lines.length > 2 * shownAround + 1;
  if (!isLong) return <>{lines.map(lineElement)}</>;
  return (
    <>
      {lines.slice(0, shownAround).map(lineElement)}
      <p class="diff-skip">{counted(lines.length - 2 * shownAround, "equal line")}</p>
      {lines.slice(-shownAround).map(lineElement)}
    </>
  );
}

const signs = { same: " ", removed: "−", added: "+" } as const;
const names = { same: undefined, removed: "Removed", added: "Added" } as const;

const lineElement = ({ kind, text }: DiffLine, i: number) => (
  <p key={i} class={`diff-line ${kind}`} title={names[kind]}>
    <span>{signs[kind]}</span>
    {visibleText(text)}
  </p>
);

/** Groups neighbors that are all equal, or all changed. */
function stretchesOf(lines: readonly DiffLine[]): readonly (readonly DiffLine[])[] {
  const stretches: DiffLine[][] = [];
  let isSame: boolean | undefined;
  for (const line of lines) {
    if ((line.kind === "same") === isSame) stretches.at(-1)?.push(line);
    else stretches.push([line]);
    isSame = line.kind === "same";
  }
  return stretches;
}
