import { useSignal } from "@preact/signals";
import { useMemo } from "preact/hooks";
import type { Header } from "../../../gen/latchkey/v1/webhook_pb.ts";
import { Button } from "../../components/button.tsx";
import { CopyButton } from "../../components/copy.tsx";
import { Section } from "../../components/page.tsx";
import { hexText, indentedJson, textOf, visibleText } from "../../data/bytes.ts";
import { bytesText } from "../../data/format.ts";
import { queryValue, setQuery } from "../../state/router.ts";

const shownChars = 100_000;
const mostIndented = 1_000_000;

interface PayloadProps {
  readonly title: string;
  readonly body: Uint8Array;
  readonly headers?: readonly Header[];
}

/** A body as indented JSON or as received, and its headers. The chosen view is in the address. */
export function Payload({ title, body, headers }: PayloadProps) {
  const text = useMemo(() => textOf(body), [body]);
  const indented = useMemo(
    () => (text === undefined || text.length > mostIndented ? undefined : indentedJson(text)),
    [text],
  );
  const views = [
    ...(indented === undefined ? [] : [["json", "JSON"] as const]),
    ["raw", text === undefined ? "Bytes" : "Raw"] as const,
    ...(headers === undefined ? [] : [["headers", `Headers (${headers.length})`] as const]),
  ];
  const wanted = queryValue("view");
  const view = views.some(([name]) => name === wanted) ? wanted : (views[0]?.[0] ?? "raw");
  return (
    <Section title={title} actions={<span class="quiet">{bytesText(body.length)}</span>}>
      <fieldset class="tabs" aria-label={`Views of the ${title.toLowerCase()}`}>
        {views.map(([name, label]) => (
          <button key={name} type="button" aria-pressed={name === view} onClick={() => setQuery({ view: name })}>
            {label}
          </button>
        ))}
      </fieldset>
      {view === "headers" && headers !== undefined ? (
        <HeaderTable headers={headers} />
      ) : (
        <BodyText text={(view === "json" ? indented : text) ?? hexText(body)} isEmpty={body.length === 0} />
      )}
    </Section>
  );
}

/** A long text is shown in part at first. */
function BodyText({ text, isEmpty }: { readonly text: string; readonly isEmpty: boolean }) {
  const isWhole = useSignal(false);
  if (isEmpty) return <p class="quiet">The body is empty.</p>;
  const shown = isWhole.value ? text : text.slice(0, shownChars);
  return (
    <section class="code-box" aria-label="Body">
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a box that scrolls must be reachable by keyboard. */}
      <pre tabIndex={0}>{visibleText(shown)}</pre>
      <CopyButton text={text} label="Copy the body" />
      {shown.length < text.length && (
        <Button isSmall onClick={() => (isWhole.value = true)}>
          Show all
        </Button>
      )}
    </section>
  );
}

const HeaderTable = ({ headers }: { readonly headers: readonly Header[] }) =>
  headers.length === 0 ? (
    <p class="quiet">The provider's description passes on no headers.</p>
  ) : (
    <div class="table-box">
      <table aria-label="Headers" class="header-table">
        <tbody>
          {headers.map(({ name, value }, i) => (
            <tr key={i}>
              <th scope="row">{name}</th>
              <td class="code">{visibleText(textOf(value) ?? hexText(value))}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
