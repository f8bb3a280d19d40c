import type { SendRequestResponse } from "../../../gen/latchkey/v1/traffic_pb.ts";
import { Badge } from "../../components/badge.tsx";
import { Code, prettyJson } from "../../components/code.tsx";
import { Notice } from "../../components/states.tsx";
import { bytesText, counted, durationText } from "../../data/format.ts";

/** The response to a request that a person sent, or why there is none. */
export function TriedResponse({ answer }: { readonly answer: SendRequestResponse }) {
  const { status, problem, totalMs, addedMs, attempts, headers, truncated } = answer;
  const tone = problem !== undefined || status >= 500 ? "bad" : status >= 400 ? "warn" : "good";
  return (
    <section aria-label="Response">
      <p class="try-status">
        <Badge tone={tone}>{status}</Badge>
        <span>
          {durationText(totalMs)}, of which Latchkey {durationText(addedMs)}
          {attempts > 1 && `, ${counted(attempts, "attempt")}`}
        </span>
      </p>
      {problem !== undefined && (
        <Notice tone="bad">
          Latchkey answered, not the provider: {problem.message} (<code>{problem.code}</code>)
        </Notice>
      )}
      {truncated && (
        <Notice tone="warn">The body is not complete: it is too large, was cut off, or did not end.</Notice>
      )}
      {problem === undefined && <ResponseBody body={answer.body} />}
      {headers.length > 0 && (
        <details>
          <summary>{counted(headers.length, "header")}</summary>
          <Code text={headers.map(({ name, value }) => `${name}: ${latin1(value)}`).join("\n")} label="headers" />
        </details>
      )}
    </section>
  );
}

const strict = new TextDecoder("utf-8", { fatal: true });
/** More would only make the page slow. */
const shownCharacters = 200_000;

function ResponseBody({ body }: { readonly body: Uint8Array }) {
  if (body.length === 0) return <p class="quiet">The response has no body.</p>;
  const text = textOf(body);
  if (text === undefined) return <p class="quiet">The body is not text: {bytesText(body.length)}.</p>;
  const shown = prettyJson(text).slice(0, shownCharacters);
  return (
    <>
      <Code text={shown} label="response body" />
      {shown.length === shownCharacters && <p class="quiet">Only the beginning is shown.</p>}
    </>
  );
}

function textOf(body: Uint8Array): string | undefined {
  try {
    const text = strict.decode(body);
    return text.includes("\0") ? undefined : text;
  } catch {
    /* Not text. */
    return undefined;
  }
}

const latin1 = (bytes: Uint8Array): string => String.fromCharCode(...bytes);
