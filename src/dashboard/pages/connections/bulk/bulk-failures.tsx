import type { Connection } from "../../../../gen/latchkey/v1/connection_pb.ts";
import { counted } from "../../../data/format.ts";
import type { CallFault } from "../../../state/fault.ts";

const mostShown = 20;

/** What failed of work over many connections. */
export const BulkFailures = ({
  failures,
}: {
  readonly failures: readonly (readonly [item: Connection, fault: Pick<CallFault, "message">])[];
}) =>
  failures.length === 0 ? null : (
    <div class="notice bad" role="alert">
      <p>{counted(failures.length, "connection")} failed:</p>
      <ul>
        {failures.slice(0, mostShown).map(([{ ref }, { message }]) => (
          <li key={`${ref?.integration}/${ref?.id}`}>
            <code>
              {ref?.integration}/{ref?.id}
            </code>{" "}
            {message}
          </li>
        ))}
        {failures.length > mostShown && <li>and {failures.length - mostShown} more</li>}
      </ul>
    </div>
  );
