import type { JsonValue } from "@bufbuild/protobuf";
import type { LogLine } from "../../gen/latchkey/v1/log_pb.ts";
import { clockTime, exactTime, msOf } from "../data/format.ts";

/** The message of a line that holds what a script wrote. */
const scriptSays = "the script says";

/** Lines of a log: time, level, text, and the fields below. */
export const LogLines = ({ lines, label }: { readonly lines: readonly LogLine[]; readonly label: string }) => (
  <ol class="log-lines" aria-label={label}>
    {lines.map((line, i) => (
      <LogLineRow key={i} line={line} />
    ))}
  </ol>
);

export function LogLineRow({ line: { at, level, message, fields = {} } }: { readonly line: LogLine }) {
  const ms = msOf(at);
  const { detail, message: said, ...others } = fields;
  const isSaid = message === scriptSays && typeof said === "string";
  const beside = Object.entries(isSaid || said === undefined ? others : { message: said, ...others });
  return (
    <li class={`log-line ${level}`}>
      {ms !== undefined && (
        <time dateTime={new Date(ms).toISOString()} title={exactTime(ms)}>
          {clockTime(ms)}
        </time>
      )}
      <span class="log-level">{level}</span>
      <div class="log-text">
        <p>{isSaid ? said : message}</p>
        {beside.length > 0 && (
          <p class="log-fields">
            {beside.map(([name, value]) => (
              <span key={name}>
                {name}=<b>{plain(value)}</b>{" "}
              </span>
            ))}
          </p>
        )}
        {typeof detail === "string" && <p class="log-detail">{detail}</p>}
      </div>
    </li>
  );
}

const plain = (value: JsonValue): string => (typeof value === "string" ? value : JSON.stringify(value));
