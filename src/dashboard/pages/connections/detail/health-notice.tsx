import { type Connection, Connection_State as State } from "../../../../gen/latchkey/v1/connection_pb.ts";
import type { Log } from "../../../../gen/latchkey/v1/log_pb.ts";
import { Notice } from "../../../components/states.tsx";
import { capitalized } from "../../../data/format.ts";
import { useLoad } from "../../../data/load.ts";
import { logs } from "../../../state/clients.ts";
import { linkTo, pathOf } from "../../../state/router.ts";
import { reasonWords, wordsOf } from "../state-words.tsx";

/** A possible cause, as a log names it. */
export interface LoggedCause {
  readonly text: string;
  readonly isLikely: boolean;
}

/** The causes that a log could not exclude, the likely ones first. */
export function causesIn({ lines }: Log): readonly LoggedCause[] {
  return lines.flatMap(({ message, fields }) => {
    const detail = fields?.["detail"];
    if (typeof detail !== "string" || !/^(?:likely|possible) cause$/.test(message)) return [];
    return [{ text: detail, isLikely: message.startsWith("likely") }];
  });
}

/** Why the connection is unwell, and what to do. Absent if it is well. */
export function HealthNotice({ connection }: { readonly connection: Connection }) {
  const { ref, state, stateReason, errors, revision } = connection;
  const isWell = state === State.ACTIVE || state === State.UNSPECIFIED;
  const logId = errors.find(({ type }) => type === "auth")?.logId ?? "";
  const { value: log } = useLoad(
    async (signal) => {
      if (isWell || logId === "") return undefined;
      const { log: found } = await logs.getLog({ environment: ref?.environment ?? "", id: logId }, { signal });
      return found;
    },
    [logId, isWell, revision],
  );
  if (isWell) return null;
  const { what, todo } = reasonWords(stateReason);
  const causes = log === undefined ? [] : causesIn(log);
  return (
    <Notice tone={wordsOf(state).tone === "bad" ? "bad" : "warn"}>
      <p>
        <strong>{what}</strong> {todo}
      </p>
      {causes.length > 0 && <CauseList causes={causes} />}
      <p class="notice-foot">
        {stateReason !== "" && <code>{stateReason}</code>}
        {logId !== "" && <a href={linkTo(pathOf("logs", logId))}>Open the log</a>}
      </p>
    </Notice>
  );
}

/** Every cause that is not excluded. */
export const CauseList = ({ causes }: { readonly causes: readonly LoggedCause[] }) => (
  <>
    <p>{causes.some(({ isLikely }) => isLikely) ? "Likely and possible causes:" : "Causes that are not excluded:"}</p>
    <ul class="cause-list">
      {causes.map(({ text, isLikely }) => (
        <li key={text}>{isLikely ? <strong>{capitalized(text)} (likely)</strong> : capitalized(text)}</li>
      ))}
    </ul>
  </>
);
